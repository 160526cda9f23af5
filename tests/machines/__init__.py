"""Engines for real, by ``make test-machines``: hosts are network namespaces on a bridge."""
