"""kernel.c, compiled on this machine at its first use and kept in the user's cache."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from ...process import own_files

_SOURCE = Path(__file__).with_name("kernel.c")
_FLAGS = ("-O3", "-march=native", "-std=c11", "-shared", "-fPIC")
_SECONDS = 60

WATCH = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)
"""Called with the awaited rank; any result other than 0 ends the wait."""


@cache
def kernel() -> ctypes.CDLL | None:
    """The loaded library; None if there is no C compiler (``CC``, or cc, gcc or clang)."""
    try:
        return _declared(_loaded())
    except (OSError, subprocess.SubprocessError, LookupError):
        return None


def _loaded() -> ctypes.CDLL:
    """Different machines may share a home folder: the file's name distinguishes them."""
    kept = _cache() / f"kernel-{_fingerprint()}.so"
    if own_files.is_ours(kept):
        return ctypes.CDLL(str(kept))
    compiler = _compiler()
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        own_files.close_to_others(kept.parent)
        folder = tempfile.mkdtemp(dir=kept.parent)
    except OSError:  # no writable home, or another user's cache
        folder = tempfile.mkdtemp(prefix="hasten-")
        kept = Path(folder, "kernel.so")
    try:
        os.replace(_compiled(compiler, folder), kept)  # atomic: ranks may compile at the same time
        return ctypes.CDLL(str(kept))
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # a loaded library needs no name


def _compiled(compiler: str, folder: str) -> Path:
    """The library, in ``folder``, where the compiler's temporary files are too."""
    made = Path(folder, "made.so")
    command = [compiler, *_FLAGS, str(_SOURCE), "-o", str(made)]
    environment = {**os.environ, "TMPDIR": folder}
    subprocess.run(command, check=True, capture_output=True, timeout=_SECONDS, env=environment)
    made.chmod(0o700)
    return made


def _compiler() -> str:
    asked = os.environ.get("CC")
    for name in [asked] if asked else ["cc", "gcc", "clang"]:
        found = shutil.which(name)
        if found is not None:
            return found
    raise LookupError("no C compiler")


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "hasten")


def _fingerprint() -> str:
    """A digest of the source, the flags and the processor, for which ``-march=native`` compiles."""
    digest = hashlib.blake2b(_SOURCE.read_bytes(), digest_size=12)
    digest.update(repr((_FLAGS, platform.machine(), platform.libc_ver(), _processor())).encode())
    return digest.hexdigest()


def _processor() -> list[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return [platform.processor()]
    return sorted({line for line in lines if line.startswith(("flags", "Features", "model name"))})


def _declared(library: ctypes.CDLL) -> ctypes.CDLL:
    pointer, whole, wide = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
    library.hasten_meet.argtypes = [pointer, whole, whole, wide, whole, WATCH]
    library.hasten_all_reduce.argtypes = [
        *(pointer, pointer, wide, whole, whole, pointer, wide, whole, whole),
        *(pointer, pointer, whole, whole, WATCH),
    ]
    return library
