"""What to try, in what order, for how long, and what may be claimed: ``pipeline.py`` is the overview."""
