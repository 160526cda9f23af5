"""Entry of a worker process: ``python bootstrap.py`` with the job in the environment.

Run by path and not by ``-m``, so that hasten may live in another environment than the script's: only this
package is made importable, nothing else of where it is installed.
"""

import importlib.util
import json
import os
import sys
import time


def find_ourselves() -> None:
    """Make ``hasten`` importable from where this file is, and take our folder off the script's path."""
    inside = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != inside]
    package = os.path.dirname(inside)
    init = os.path.join(package, "__init__.py")
    spec = importlib.util.spec_from_file_location("hasten", init, submodule_search_locations=[package])
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["hasten"] = module
    spec.loader.exec_module(module)


if __name__ == "__main__":
    started = time.time()
    find_ourselves()
    from hasten.inside.job import VARIABLE, Job
    from hasten.inside.terminal import tell_size
    from hasten.inside.worker import Worker
    from hasten.records.codec import from_json

    job = from_json(Job, json.loads(os.environ.pop(VARIABLE)))
    tell_size(job.terminal)
    Worker(job, started).run()
