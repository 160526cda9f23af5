"""hasten's own command line, run by path: what engines start as each rank.

``python -m`` would look for modules in the working directory first, and a console script is not everywhere.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    sys.path[0] = os.path.join(package, "launch")  # taken off again
    from entry import find_ourselves  # type: ignore[import-not-found]

    find_ourselves()
    from hasten.cli.main import main

    sys.exit(main())
