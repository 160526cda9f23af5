"""Where our own code is: frames and modules from there are not the script's."""

from __future__ import annotations

import os

INSIDE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.dirname(INSIDE)
