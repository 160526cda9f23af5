"""hasten's own command line, run by path: what engines start as each rank.

``python -m`` would look for modules in the working directory first, and a console script is not everywhere.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    from entry import find_ourselves  # type: ignore[import-not-found]

    find_ourselves()
    from hasten.cli.main import main

    sys.exit(main())
