"""What the guard needs of a worker: a trace of its steps, single steps from a given state, rounding noise."""
