"""Observes a training, one file a seam, and describes what was seen. It changes nothing."""
