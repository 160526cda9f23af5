"""Whether making samples prints or writes to files that the script has open: of samples that are kept, that
would be missing.

It is for a process of ours in which ``be_quiet_and_single`` has turned output aside. A file that is opened in
making a sample does not count, nor do warnings, which Python shows once for each line.
"""

from __future__ import annotations

import io
import os
import sys
import warnings
from contextlib import suppress
from typing import Any

from ..process import collector
from . import forked


class OutputWatch:
    def __init__(self) -> None:
        self._output = os.memfd_create("output", os.MFD_CLOEXEC) if hasattr(os, "memfd_create") else None
        self._buffers: list[Any] = [sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__]
        if self._output is None:
            return
        warnings.showwarning = lambda *_, **__: None
        sys.stdout = sys.stderr = os.fdopen(os.dup(self._output), "w")
        self._buffers.append(sys.stdout)
        for number in (1, 2, *forked.turned_aside):
            os.dup2(self._output, number)
        if forked.turned_aside:
            collector.unfreeze()  # what is frozen is not listed
            kinds = (io.BufferedWriter, io.TextIOWrapper)
            self._buffers += [one for one in collector.get_objects() if type(one) in kinds]
        self.begin()

    def begin(self) -> None:
        self._before = self._written()

    @property
    def wrote(self) -> bool:
        """Whether something was written since ``begin``."""
        return self._written() != self._before

    def _written(self) -> int:
        """Bytes."""
        if self._output is None:
            return 0
        for buffer in self._buffers:
            with suppress(Exception):  # closed, not there, or the script's own
                buffer.flush()
        return os.fstat(self._output).st_size
