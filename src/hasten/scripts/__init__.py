"""What can be known of a user's script without training it: its files, what it asks for, our folder of it."""
