"""Honest comparison of two plans: ``Bench.compare(a, b) -> Trial``."""
