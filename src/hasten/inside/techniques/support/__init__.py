"""What several techniques need of torch or of the machine, and parts of one that deserve a file."""
