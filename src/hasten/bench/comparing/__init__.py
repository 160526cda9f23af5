"""Two plans against each other: blocks and pairs, which ones count, intervals, and what may be claimed."""
