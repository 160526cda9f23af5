"""Libraries that a technique may load into a process, found on this machine by kind.

A plan names kinds only, so a plan from somebody else can only load what is installed here.
Sources: ld.so(8) for the usual folders; the files of the package intel-openmp.
"""

from __future__ import annotations

import importlib.metadata
import sys
from contextlib import suppress
from pathlib import Path

from hasten.machine.probe import output_of

ALLOCATORS = {
    "tcmalloc": ("libtcmalloc_minimal.so.4", "libtcmalloc.so.4"),
    "jemalloc": ("libjemalloc.so.2",),
    "mimalloc": ("libmimalloc.so.2", "libmimalloc.so.3", "libmimalloc.so.2.0"),
}
"""File names by kind, preferred one first."""

_FOLDERS = (
    "usr/local/lib",
    "usr/local/lib64",
    "usr/lib",
    "usr/lib64",
    "lib",
    "lib64",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
)
_OPENMP_PACKAGE, _OPENMP_FILE = "intel-openmp", "libiomp5.so"


def libraries(root: Path = Path("/")) -> dict[str, str]:
    """The file of each kind that is installed: tcmalloc, jemalloc, mimalloc, libiomp5."""
    cache = _cache() if root == Path("/") else {}
    found = {}
    for kind, names in ALLOCATORS.items():
        file = next(filter(None, (cache.get(name) or _in_folders(name, root) for name in names)), "")
        if file:
            found[kind] = file
    openmp = _of_package(_OPENMP_PACKAGE, _OPENMP_FILE)
    if openmp:
        found["libiomp5"] = openmp
    return {
        kind: file for kind, file in found.items() if not set(": ") & set(file)
    }  # LD_PRELOAD separates by both


def packages() -> dict[str, str]:
    """The versions of Python packages that a technique may load, if installed."""
    found = {}
    for name in ("intel_extension_for_pytorch",):
        with suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def _cache() -> dict[str, str]:
    """What ld.so knows: lines such as "libjemalloc.so.2 (libc6,x86-64) => /lib/.../libjemalloc.so.2".

    A library built for another word size or processor is left out.
    """
    found: dict[str, str] = {}
    for line in (output_of("ldconfig", "-p") or output_of("/sbin/ldconfig", "-p")).splitlines():
        name, _, rest = line.strip().partition(" ")
        kind, _, file = rest.partition(" => ")
        wide = "x86-64" in kind or "AArch64" in kind or "64bit" in kind
        if file and wide == (sys.maxsize > 2**32):
            found.setdefault(name, file)
    return found


def _in_folders(name: str, root: Path) -> str:
    return next((str(root / folder / name) for folder in _FOLDERS if (root / folder / name).is_file()), "")


def _of_package(package: str, name: str) -> str:
    """The file called ``name`` from an installed Python package; "" for none."""
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        return ""
    places = (Path(str(file.locate())).resolve() for file in files if file.name == name)
    return next((str(place) for place in places if place.is_file()), "")
