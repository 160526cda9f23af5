"""Entry of a worker process: ``python bootstrap.py`` with the job in the environment.

Run by path and not by ``-m``, so that hasten may be installed in a different environment from the script's:
only this package is made importable, nothing else from there. Python's own modules come from Python's
library, whatever is on the script's path.
"""

import os
import sys
import time

BEFORE = frozenset(sys.modules)  # what any script would find imported


def pythons_own(path: list[str]) -> list[str]:
    """The folders of Python's own modules in a path."""
    library = os.path.dirname(os.__file__)
    return [entry for entry in path if entry == library or entry.endswith((".zip", "lib-dynload"))]


def find_ourselves() -> None:
    """Make ``hasten`` importable from where this file is."""
    import importlib.util

    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    init = os.path.join(package, "__init__.py")
    spec = importlib.util.spec_from_file_location("hasten", init, submodule_search_locations=[package])
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["hasten"] = module
    spec.loader.exec_module(module)


if __name__ == "__main__":
    started = time.time()
    path = sys.path[1:]  # without the folder of this file
    sys.path[:] = pythons_own(path)
    import json

    find_ourselves()
    from hasten.inside.job import VARIABLE, Job
    from hasten.inside.techniques.catalog import CATALOG
    from hasten.inside.worker import names
    from hasten.inside.worker.start_times import StartTimes
    from hasten.inside.worker.terminal_size import tell_size
    from hasten.inside.worker.worker import Worker
    from hasten.records.codec import from_json

    job = from_json(Job, json.loads(os.environ.pop(VARIABLE)))
    # now, as the script's modules may be called like Python's
    for technique in job.plan.techniques:
        CATALOG[technique]
    own_seconds = time.time() - started
    for technique in CATALOG if job.descriptor is not None else ():  # the coordinator may switch to any
        CATALOG[technique]
    started = time.time() - own_seconds  # a run does not pay for the others
    names.remember(BEFORE)
    sys.path[:] = path
    tell_size(job.terminal)
    Worker(job, StartTimes(started, own_seconds)).run()
