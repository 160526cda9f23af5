"""What a script wrote outside its folders while it was measured: all of it is gone again."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from ...inside.sandbox import mounts, reach
from ...records.caution import Caution

_MOST_ENTRIES = 50_000
_OF_LIBRARIES = re.compile(  # what Python's and torch's own libraries create in temporary folders
    r"(torchinductor_|torch_|pymp-|tmp|pyright|cc|hasten|__|\.)"
)


def written_outside(uppers: Iterable[Mapping[str, str]], folders: Sequence[str]) -> list[str]:
    """Files that trials wrote or removed, by the paths they would have had, but not those in ``folders``, in
    caches, and what libraries put among temporary files. ``uppers``: of each worker, by place.
    """
    own = [os.path.realpath(folder) for folder in folders]
    passed_over = reach.caches(os.environ, own)
    temporary = reach.temporary()
    found = set()
    for path in _written(uppers):
        if any(mounts.below(path, folder) for folder in (*own, *passed_over)) or path.endswith(".pyc"):
            continue
        if not _is_of_libraries(path, temporary):
            found.add(path)
    return sorted(found)


def outside_caution(paths: Sequence[str]) -> list[Caution]:
    """A warning, if there are any."""
    return [Caution("wrote outside", paths=tuple(paths))] if paths else []


def _written(uppers: Iterable[Mapping[str, str]]) -> Iterator[str]:
    """All entries below a folder except folders."""
    left = _MOST_ENTRIES
    for places in uppers:
        for place, upper in places.items():
            waiting = [(upper, place)]
            for folder, real in waiting:  # grows
                with suppress(OSError), os.scandir(folder) as entries:
                    for entry in entries:
                        left -= 1
                        if left < 0:
                            return
                        path = os.path.join(real, entry.name)
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append((entry.path, path))
                        else:
                            yield path


def _is_of_libraries(path: str, temporary: Sequence[str]) -> bool:
    for folder in temporary:
        if mounts.below(path, folder):
            first = os.path.relpath(path, folder).split("/")[0]
            return _OF_LIBRARIES.match(first) is not None
    return False
