"""A project folder, a home and a place for layers, and workers that protect the ones by the other."""

from __future__ import annotations

import atexit
import hashlib
import json
import multiprocessing
import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import hasten
from hasten.inside.sandbox import mounts

from ..patience import PATIENCE_SECONDS
from .users import identity, python_for

WORKER = """
import ctypes, json, mmap, os, shutil, sqlite3, subprocess, sys, tempfile, threading
from pathlib import Path
from hasten.inside.sandbox.overlay_folders import make_layers, remove_layers
from hasten.inside.sandbox.prelude import keep
from hasten.inside.sandbox.protect import protect

asked = json.loads(sys.argv[1])
namespaces = [os.readlink(f"/proc/self/ns/{kind}") for kind in ("mnt", "user")]
result = None
if asked["protected"]:
    protection = protect(asked["folders"], asked["layers"], asked["prelude"], asked["through"])
    if protection.kind != "overlay":
        sys.exit(protection.reason)
    here = asked["folders"][0]
    place = max((p for p in protection.uppers if os.path.commonpath([p, here]) == p), key=len)
    upper = protection.uppers[place]
exec(asked["body"])
print(json.dumps(result))
"""


def fingerprint(tree: Path) -> dict[str, tuple[object, ...]]:
    """Name, kind and mode, owner, time and content of all below ``tree``, and of itself."""
    return {str(path): _facts(path) for path in (tree, *sorted(tree.rglob("*")))}


def _facts(path: Path) -> tuple[object, ...]:
    found = path.lstat()
    if path.is_symlink():
        content = str(path.readlink())
    else:
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
    return found.st_mode, found.st_uid, found.st_mtime_ns, content


@dataclass(frozen=True)
class Ground:
    """A project folder, a place for layers, and how to run a worker that protects the one by the other."""

    base: Path
    python: str
    user: int | None  # None: who runs the tests
    sources: Path  # what a worker imports

    @property
    def project(self) -> Path:
        return self.base / "project"

    @property
    def layers(self) -> Path:
        return self.base / "layers"

    @property
    def home(self) -> Path:
        return self.base / "home"

    def start(self, body: str, protected: bool = True, **asked: Any) -> subprocess.CompletedProcess[str]:
        """Run ``body`` in a worker of its own, in the project folder unless ``cwd`` says otherwise."""
        cwd, more = asked.pop("cwd", self.project), asked.pop("environment", {})
        default = {"folders": [str(self.project)], "layers": str(self.layers), "prelude": {}, "through": []}
        request = default | asked | {"body": body, "protected": protected}
        return subprocess.run(
            [self.python, "-B", "-c", WORKER, json.dumps(request)],
            env={
                "PATH": os.environ["PATH"], "PYTHONPATH": str(self.sources),
                "HOME": str(self.home), **more,
            },
            cwd=cwd, capture_output=True, text=True, timeout=PATIENCE_SECONDS, **identity(self.user),
        )  # fmt: skip

    def run(self, body: str, **asked: Any) -> Any:
        """What the body left in ``result``; it must not fail."""
        done = self.start(body, **asked)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def refusal(self, **asked: Any) -> str:
        """The reason why protection is off."""
        done = self.start("raise SystemExit('protected all the same')", **asked)
        assert "Traceback" not in done.stderr
        return done.stderr.strip()

    def give(self, path: Path) -> None:
        """Make a new path the user's own."""
        if self.user is not None:
            os.chown(path, self.user, self.user)

    def populate(self, folder: Path) -> None:
        folder.mkdir()
        (folder / "dir").mkdir()
        (folder / "dir" / "inner.txt").write_text("inner")
        (folder / "data.txt").write_text("old\n")
        (folder / "bytes.bin").write_bytes(bytes(8192))
        (folder / "link").symlink_to("data.txt")
        database = sqlite3.connect(folder / "log.db")
        with database:
            database.execute("CREATE TABLE log (line TEXT)")
            database.execute("INSERT INTO log VALUES ('old')")
        database.close()
        for path in (folder, *folder.rglob("*")):
            if not path.is_symlink():
                self.give(path)


@cache
def why_no_overlay(user: int | None, folder: str) -> str:
    """Ask the kernel without our code: "" if that user can mount an overlay with layers in ``folder``."""
    way, option = ("-m", "") if user is None and os.geteuid() == 0 else ("-Urm", ",userxattr")
    script = f"mkdir l u w m && mount -t overlay probe -o lowerdir=l,upperdir=u,workdir=w{option} m"
    with tempfile.TemporaryDirectory(dir=folder) as probe:
        Path(probe).chmod(0o777)
        command = ["unshare", way, "sh", "-c", script]
        try:
            done = subprocess.run(command, cwd=probe, capture_output=True, text=True, **identity(user))
        except OSError as error:
            return f"unshare(1) does not start as {user or 'this user'}: {error}"
    return f"this machine refuses overlays: {done.stderr.strip()}" if done.returncode else ""


@cache
def sources_for(python: str) -> Path:
    """What a worker needs of hasten, compiled for that Python, where anybody may read it."""
    sources = Path(tempfile.mkdtemp()).resolve()
    atexit.register(shutil.rmtree, sources, ignore_errors=True)
    sources.chmod(0o755)
    package = Path(hasten.__file__).parent
    for path in (package / "__init__.py", *(package / "inside").rglob("*.py")):
        copied = sources / "hasten" / path.relative_to(package)
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copied)
    subprocess.run([python, "-m", "compileall", "-q", str(sources)], check=True)
    return sources


def make_ground(user: int | None) -> Ground:
    """``remove_layers`` takes it away."""
    python = python_for(user)
    made = Ground(Path(tempfile.mkdtemp()).resolve(), python, user, sources_for(python))
    made.base.chmod(0o755)
    for folder in (made.layers, made.home):
        folder.mkdir()
        made.give(folder)
    made.populate(made.project)
    return made


as_root = pytest.mark.parametrize("ground", ["root"], indirect=True)
as_user = pytest.mark.parametrize("ground", ["user"], indirect=True)


def in_own_mounts(test: Callable[[Ground], None], ground: Ground) -> None:
    """Run ``test`` in a process where it may mount; its failure is ours. Raises what it raised."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        pool.submit(_in_own_mounts, test, ground).result()


def _in_own_mounts(test: Callable[[Ground], None], ground: Ground) -> None:
    mounts.leave_shared_mounts()
    test(ground)


def mount(*arguments: str | Path) -> None:
    subprocess.run(["mount", *arguments], check=True)
