"""Keeps a trial's script away from the user's files, and ends everything it started."""
