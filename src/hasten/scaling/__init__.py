"""Predicts a training on more machines: arithmetic on what was measured, and no more."""
