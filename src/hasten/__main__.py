"""``python -m hasten``: the command, where the folder it was installed into is not on the PATH."""

from __future__ import annotations

import sys

from .cli.main import main

if __name__ == "__main__":
    sys.exit(main())
