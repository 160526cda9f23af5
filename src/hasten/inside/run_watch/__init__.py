"""Whether a run's steps have become slower than they were, or than its plan's, and why."""
