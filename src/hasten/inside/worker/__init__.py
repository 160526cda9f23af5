"""A worker from start to end: it runs the user's script as Python would, and talks to the coordinator."""
