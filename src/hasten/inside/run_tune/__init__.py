"""A run that tries techniques in its own first steps: what may be tried, what a block took, who wins.
``live_tune.py`` is called after each step; the rest is pure.
"""
