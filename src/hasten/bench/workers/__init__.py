"""The coordinator's side of workers: start them, talk to them, read their output, end them."""
