"""Signals as a launcher handles them: one at a time, when it waits."""

from __future__ import annotations

import signal
from types import FrameType

PASSED_ON = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})
_FROM_KERNEL = 0x80  # si_code of a terminal's signal to a whole process group (sigaction(2), SI_KERNEL)


class Signals:
    """As a context: signals wait for ``next``. Main thread only.

    An ignored signal (under nohup, or in a shell's background) stays ignored.
    """

    def __enter__(self) -> Signals:
        heeded = {number for number in PASSED_ON if signal.getsignal(number) != signal.SIG_IGN}
        self._awaited = {*heeded, signal.SIGCHLD, signal.SIGALRM}
        self._handler = signal.signal(signal.SIGCHLD, _nothing)  # some kernels drop unhandled signals
        self.mask_before: set[signal.Signals] = signal.pthread_sigmask(signal.SIG_BLOCK, self._awaited)  # type: ignore[assignment]
        return self

    def __exit__(self, *_: object) -> None:
        self.alarm(0)
        while signal.SIGALRM in signal.sigpending():  # it went off before that, and would end us now
            signal.sigwait({signal.SIGALRM})
        signal.pthread_sigmask(signal.SIG_SETMASK, self.mask_before)
        signal.signal(signal.SIGCHLD, self._handler)

    def next(self) -> tuple[int, bool]:
        """Wait for a signal: which, and whether our whole process group got it, from a terminal."""
        if not hasattr(signal, "sigwaitinfo"):  # macOS
            return signal.sigwait(self._awaited), False
        info = signal.sigwaitinfo(self._awaited)
        return info.si_signo, info.si_code == _FROM_KERNEL

    @staticmethod
    def alarm(seconds: float) -> None:
        """SIGALRM will come then; 0 cancels it."""
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _nothing(number: int, frame: FrameType | None) -> None:
    """A handler, so that the signal is not ignored."""
