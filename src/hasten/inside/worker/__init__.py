"""The worker's life: its job, the user's script as Python would run it, its conversation, its end."""
