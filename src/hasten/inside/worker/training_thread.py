"""Which thread's steps are followed if several threads train."""

from __future__ import annotations

import threading

from ..observing.obstacles import several_threads
from ..training import Training


class TrainingThread:
    """The first thread that trains, as long as it lives; then the next."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None

    def is_this(self, training: Training) -> bool:
        """Whether the calling thread is it; a second one is an obstacle."""
        asking = threading.current_thread()
        if self._thread is None or not self._thread.is_alive():
            self._thread = asking
        if self._thread is not asking:
            training.obstacles[several_threads(f"{self._thread.name} and {asking.name}")] = None
        return self._thread is asking
