"""Which gains and shares count: what several rooms decide by. The rules themselves are in
``bench/comparing/decisions.py``, and for a run that tunes itself in ``inside/run_tune/contest.py``.
"""

from __future__ import annotations

# ---- ratios: b's time over a's
KEEP_BELOW = 0.99  # the interval ends below this: kept
CLEAR_BELOW = 0.97  # it ends below this: a gain so clear that more of the comparison would not change it
SLOWER_ABOVE = 0.05  # of every log ratio, if there are two: both say slower, and by much

# ---- shares, 0 to 1
LEAST_SHARE = 0.01  # of a run or a step: a smaller part cannot gain more, and is not tried
LARGE_SHARE = 0.3  # of a run or a step: what is so large comes first
