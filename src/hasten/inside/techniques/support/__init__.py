"""What several techniques need from torch or the machine, and parts of one that deserve their own file."""
