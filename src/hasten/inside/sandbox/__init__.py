"""What keeps a trial's script from the user's files, and ends all that it started."""
