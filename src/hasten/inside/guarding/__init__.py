"""What the guard needs in a worker: a trace of its steps, single steps from a given state, rounding noise."""
