"""Is the training under a plan the same training? Traces and single steps compared, and the verdict."""
