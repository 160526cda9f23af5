"""Processes that the script starts itself: we cannot see training there."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

from ..seams import Call, ImportSeam, Seams

_LAUNCHERS = ("torchrun", "accelerate", "deepspeed", "mpirun", "mpiexec", "srun", "horovodrun")


class Children:
    """Looks for children that could train, and calls ``on_first`` with the name of the first."""

    def __init__(self, seams: Seams, on_first: Callable[[str], None]) -> None:
        self._seams = seams
        self._on_first = on_first
        self._seen = False

    def watch(self) -> None:
        """Start watching; imports nothing that the script does not import."""
        watching = self._seams.watching
        ImportSeam("multiprocessing.process", watching(self._watch_processes)).install()
        ImportSeam("subprocess", watching(self._watch_programs)).install()

    def _watch_processes(self, module: ModuleType) -> None:
        consider = self._seams.watching(self._consider_process)

        def starting(original: Call) -> Call:
            def start(process: object) -> object:
                consider(process)
                return original(process)

            return start

        self._seams.replace(module.BaseProcess, "start", starting)

    def _watch_programs(self, module: ModuleType) -> None:
        consider = self._seams.watching(self._consider_program)

        def starting(original: Call) -> Call:
            def __init__(process: object, args: object, *others: object, **options: object) -> None:
                consider(args)
                original(process, args, *others, **options)

            return __init__

        self._seams.replace(module.Popen, "__init__", starting)

    def _consider_process(self, process: object) -> None:
        target = getattr(process, "_target", None)
        home = getattr(target, "__module__", None) or type(process).__module__
        if not home.startswith(("torch.utils.data", "multiprocessing")):  # loaders' workers, and pools
            self._came(getattr(target, "__qualname__", type(process).__qualname__))

    def _consider_program(self, args: object) -> None:
        words = args.split() if isinstance(args, str) else args
        if not isinstance(words, Sequence) or not words or not isinstance(words[0], (str, os.PathLike)):
            return
        program = os.path.basename(os.fspath(words[0]))
        if any("torch._inductor" in str(word) for word in words):  # torch.compile's own
            return
        if words[0] == sys.executable or program in _LAUNCHERS or program.startswith("python"):
            self._came(" ".join([program, *map(str, words[1:4])]))

    def _came(self, name: str) -> None:
        if not self._seen:
            self._seen = True
            self._on_first(name)
