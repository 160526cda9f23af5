"""C and C++ of our own, compiled on this machine at its first use and kept in the user's cache."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from . import own_files

_FLAGS = ("-O3", "-shared", "-fPIC")
_FOR_THIS_PROCESSOR = ("-march=native", "-mcpu=native", "")  # the first that a compiler knows
_SECONDS = 120


class CannotCompile(Exception):
    """Why there is no library, in words."""


def compiler(*names: str) -> str:
    """The path of the first of these that is there. Raises CannotCompile."""
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        raise CannotCompile(f"there is no compiler {' or '.join(names)}")
    return found


def library(source: Path, by: str, flags: Sequence[str]) -> ctypes.CDLL:
    """What the compiler ``by`` makes of ``source`` with these flags in addition, loaded into this process.
    Raises CannotCompile.
    """
    kept = _cache() / f"{source.stem}-{_fingerprint(source, by, flags)}.so"
    with suppress(OSError):  # a file that was cut short is made anew
        if own_files.is_ours(kept):
            return ctypes.CDLL(str(kept))
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        own_files.close_to_others(kept.parent)
        folder = tempfile.mkdtemp(dir=kept.parent)
    except OSError:  # no writable home, or another user's cache
        folder = tempfile.mkdtemp(prefix="hasten-")
        kept = Path(folder, kept.name)
    try:
        os.replace(_compiled(source, by, flags, folder), kept)  # atomic: several may compile at the same time
        return ctypes.CDLL(str(kept))
    except OSError as error:
        raise CannotCompile(f"what was compiled of {source.name} cannot be loaded: {error}") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # a loaded library needs no name


def _compiled(source: Path, by: str, flags: Sequence[str], folder: str) -> Path:
    """The library, in ``folder``, where the compiler's temporary files are too."""
    made, said = Path(folder, "made.so"), ""
    environment = {**os.environ, "TMPDIR": folder}
    for processor in _FOR_THIS_PROCESSOR:
        command = [by, *_FLAGS, *flags, *filter(None, [processor]), str(source), "-o", str(made)]
        try:
            done = subprocess.run(
                command, check=False, capture_output=True, text=True, timeout=_SECONDS, env=environment
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise CannotCompile(str(error)) from None
        if not done.returncode:
            made.chmod(0o700)
            return made
        said = said or done.stderr.strip()
    first = next((line for line in said.splitlines() if "error" in line), said or "it gave no reason")
    raise CannotCompile(f"{os.path.basename(by)} cannot compile {source.name}: {first}")


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "hasten")


def _fingerprint(source: Path, by: str, flags: Sequence[str]) -> str:
    """A digest of the source, the compiler, the flags and the processor, for which it compiles: different
    machines may share a home folder.
    """
    digest = hashlib.blake2b(source.read_bytes(), digest_size=12)
    seen = os.stat(by)
    known = (_FLAGS, *flags, os.path.realpath(by), seen.st_size, seen.st_mtime_ns)
    digest.update(repr((known, platform.machine(), platform.libc_ver(), _processor())).encode())
    return digest.hexdigest()


def _processor() -> list[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return [platform.processor()]
    return sorted({line for line in lines if line.startswith(("flags", "Features", "model name"))})
