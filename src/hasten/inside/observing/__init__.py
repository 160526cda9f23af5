"""Observes a training, one file per seam, and describes what was seen. It changes nothing."""
