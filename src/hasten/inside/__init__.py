"""Everything that runs inside the user's process. Standard library and the user's own torch only."""
