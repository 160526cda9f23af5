"""How long tests wait for what must come."""

PATIENCE_SECONDS = 600.0
"""Nothing takes that long, but on a busy machine everything may take many times what it usually does. It is
for what would never come; pytest's own limit (pyproject.toml) is longer still.
"""
