"""What the guard needs of a worker: a trace of its steps, one step of one state, noise like rounding's."""
