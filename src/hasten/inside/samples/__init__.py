"""Where samples come from and where they may be kept: caches, loaders with other options, proofs."""
