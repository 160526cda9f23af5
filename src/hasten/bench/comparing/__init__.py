"""Two plans against each other: blocks and pairs, which of them count, intervals, and what may be claimed."""
