"""For tests of techniques, ours and others': a training in this process, and the contract each must meet."""
