"""Where samples come from and where they may be kept: caches, loaders read otherwise, proofs of sampling."""
