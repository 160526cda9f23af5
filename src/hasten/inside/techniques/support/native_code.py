"""C++ of our own, compiled once a machine and loaded into this process.

It is compiled for the processor that it runs on, by the compiler that torch.compile would call, and kept in
~/.cache/hasten. Its threads are torch's own: a second OpenMP library in one process would bring another set
of them, and both would wait for work on the same cores.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

_FOR_THIS_PROCESSOR = ("-march=native", "-mcpu=native")  # of which a compiler knows one, or none
_USUAL = ("-std=c++17", "-O3", "-fopenmp", "-shared", "-fPIC")
_OPENMP = "libgomp.so.1"  # which the compiler links
_COMPILING_SECONDS = 120


class CannotCompile(Exception):
    """Why there is no library, in words."""


def library(source: Path) -> ctypes.CDLL:
    """The library that ``source`` makes, in this process. Raises CannotCompile."""
    if not _torch_threads_are_found():
        raise CannotCompile(f"torch's threads are not those of {_OPENMP}, which g++ would use")
    compiler = _compiler()
    name = f"{source.stem}-{_key(source, compiler)}.so"
    folder = _kept_folder()
    if folder is not None:
        kept = folder / name
        with suppress(CannotCompile):  # a file that was cut short is made anew
            if kept.exists():
                return _loaded(kept)
        _compile(compiler, source, kept)
        return _loaded(kept)
    with tempfile.TemporaryDirectory(prefix="hasten-") as passing:
        made = Path(passing, name)
        _compile(compiler, source, made)
        return _loaded(made)


def _loaded(file: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(file))
    except OSError as error:
        raise CannotCompile(f"what was compiled cannot be loaded: {error}") from None


def _compiler() -> str:
    usual = "clang++" if platform.system() == "Darwin" else "g++"
    name = os.environ.get("CXX") or usual
    found = shutil.which(name)
    if found is None:
        raise CannotCompile(f"there is no C++ compiler {name}")
    return found


def _key(source: Path, compiler: str) -> str:
    """Another one for another source, compiler or processor: a home may be shared by different machines."""
    made = hashlib.sha256(source.read_bytes())
    compiled_by = os.stat(compiler)
    made.update(f"{os.path.realpath(compiler)} {compiled_by.st_size} {compiled_by.st_mtime_ns}".encode())
    made.update(f"{platform.machine()} {_USUAL} {_processor()}".encode())
    return made.hexdigest()[:16]


def _processor() -> str:
    """What the kernel says that it can do."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return platform.processor()
    named = (line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part")))
    return "\n".join(dict.fromkeys(named))


def _kept_folder() -> Path | None:
    """Where compiled code is kept; None where others could have written to it."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(base, "hasten", "native")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        seen = folder.stat()
    except OSError:
        return None
    ours = seen.st_uid == os.getuid() and not seen.st_mode & 0o022
    return folder if ours and os.access(folder, os.W_OK) else None


def _compile(compiler: str, source: Path, made: Path) -> None:
    """Under another name first: processes that start together compile it each, and the last one stays."""
    new = made.with_name(f"{made.name}.{os.getpid()}")
    said = ""
    try:
        for processor in (*_FOR_THIS_PROCESSOR, ""):
            words = [compiler, *filter(None, (*_USUAL, processor)), "-o", str(new), str(source)]
            done = subprocess.run(
                words, capture_output=True, text=True, timeout=_COMPILING_SECONDS, check=False
            )
            if done.returncode == 0:
                os.replace(new, made)
                return
            said = said or done.stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        said = str(error)
    finally:
        new.unlink(missing_ok=True)
    first = next((line for line in said.splitlines() if "error" in line), said.strip() or "no reason given")
    raise CannotCompile(f"{os.path.basename(compiler)} cannot compile {source.name}: {first}")


def _torch_threads_are_found() -> bool:
    """Whether the library that ours asks for by name is loaded already."""
    try:
        with open("/proc/self/maps", errors="replace") as lines:
            return any(os.path.basename(line.rstrip()).startswith(_OPENMP) for line in lines)
    except OSError:
        return False
