"""Where samples come from and where they may be cached: caches, loaders with other options, proofs."""
