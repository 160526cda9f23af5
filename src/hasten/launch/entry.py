"""For files that are run by path: makes ``hasten`` importable as a worker's entry does.

Imported by its bare name, since its folder is first on such a file's path; ``find_ourselves`` takes it off.
"""

import importlib.util
import os
import sys


def find_ourselves() -> None:
    """From now on ``import hasten`` finds the package in which this file lies."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    entry = os.path.join(os.path.dirname(here), "inside", "bootstrap.py")
    spec = importlib.util.spec_from_file_location("bootstrap", entry)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.find_ourselves()
