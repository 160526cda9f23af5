"""Exact restart of a script without resume code: what it did is played back, and what it held is put back."""
