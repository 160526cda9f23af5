"""What to try, in what order, for how long, and what may be said of it: ``pipeline.py`` is its contents."""
