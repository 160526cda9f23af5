"""Proof that sampling a dataset is deterministic.

A forked child, in which nothing can disturb the training, draws samples twice, the second time like a
loader's worker, with different seeds. They must be equal byte for byte, the global RNG states must not move,
and nothing that samples can be made from may change (``visible_state``) after the first draw: by then,
anything opened or computed on first use is there.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..process.own_offsets import open_files_anew
from ..process.readable import readable
from ..random_state import state_of_generator
from .contents import version_of
from .draws_in_samples import Drawing, as_another_process
from .forked import be_quiet_and_single, end
from .output_watch import OutputWatch
from .shared_memory import why_not_apart
from .visible_state import difference, visible_state

if TYPE_CHECKING:
    from torch import Tensor

_SAMPLES = 48  # drawn twice each, spread over the dataset
_CHILD_SECONDS = 10.0  # after which the child reports on what it has drawn
_PATIENCE_SECONDS = 30.0  # after which the child is killed
_REASON_CHARACTERS = 500  # of an error's message


def prove_deterministic(
    torch: ModuleType, dataset: Any, length: int, seconds: float | None = None
) -> tuple[str, int]:
    """("", bytes of the largest sample) if sampling is proven deterministic, otherwise (why not, 0).

    ``seconds``: after which what was drawn so far decides.
    """
    reason, sample_bytes = drawn_apart(torch, dataset, lambda: _examine(torch, dataset, length, seconds))
    return reason, int(sample_bytes)


def drawn_apart(
    torch: ModuleType, dataset: object, examine: Callable[[], tuple[str, object]]
) -> tuple[str, Any]:
    """Like ``answered_apart``, for what draws samples of the dataset: some must not be drawn apart."""
    reason = why_not_apart(dataset)
    return (reason, 0) if reason else answered_apart(torch, type(dataset).__name__, examine)


def answered_apart(
    torch: ModuleType, name: str, examine: Callable[[], tuple[str, object]]
) -> tuple[str, Any]:
    """What ``examine`` answers in a separate process, a reason and what goes as JSON; (why there is no
    answer, 0) if it has none.

    ``name`` is the dataset's, for the reason.
    """
    answer = told_apart(torch, lambda: _answer(name, examine), _PATIENCE_SECONDS)
    if answer is None:
        return f"drawing samples of {name} in a separate process did not end", 0
    reason, told = answer
    return str(reason), told


def told_apart(torch: ModuleType, tell: Callable[[], object], seconds: float) -> Any:
    """What ``tell`` returns in a forked process, as JSON; None if it raises, or has not returned after
    ``seconds``.
    """
    read_end, write_end = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        _tell_and_exit(torch, tell, write_end)
    os.close(write_end)
    told = b""
    deadline = time.monotonic() + seconds
    try:
        while readable(read_end, deadline - time.monotonic()):
            part = os.read(read_end, 65536)
            if not part:
                break
            told += part
    finally:
        os.close(read_end)
        end(child)
    try:
        return json.loads(told)
    except ValueError:  # nothing, or not all of it
        return None


def _tell_and_exit(torch: ModuleType, tell: Callable[[], object], write_end: int) -> None:
    """All that the child does."""
    try:
        be_quiet_and_single(torch)
        with os.fdopen(write_end, "wb") as pipe:
            pipe.write(json.dumps(tell()).encode())
    finally:
        os._exit(0)


def _answer(name: str, examine: Callable[[], tuple[str, object]]) -> tuple[str, object]:
    try:
        open_files_anew()
        return examine()
    except BaseException as error:
        what = f"{type(error).__name__}: {error}"[:_REASON_CHARACTERS]
        return f"drawing a sample of {name} again failed: {what}", 0


def _examine(torch: ModuleType, dataset: Any, length: int, seconds: float | None) -> tuple[str, int]:
    name, drawing, output = type(dataset).__name__, Drawing(torch, dataset, apart=True), OutputWatch()
    largest, drew = 0, False
    before: MadeFrom | None = None
    for index in spread(length, seconds):
        first = dataset[index]
        before = before or MadeFrom(dataset, output)
        kind = incomparable(first)
        if kind:
            return f"samples of {name} hold {kind} objects, which cannot be compared byte by byte", 0
        largest = max(largest, sample_nbytes(first))
        drew |= drawing.drew
        with as_another_process(torch, dataset, index):
            drawing.begin()
            again = dataset[index]
            drew |= drawing.drew
        drawing.begin()
        if not same_sample(first, again):
            return f"sample {index} of {name} differs when it is drawn twice (random augmentation?)", 0
    done = before.why_another(drew) if before is not None else ""
    return (f"drawing a sample of {name} {done}", 0) if done else ("", largest)


class MadeFrom:
    """What samples are made from, as it is now, and what was printed or written."""

    def __init__(self, dataset: object, output: OutputWatch) -> None:
        self._dataset, self._output = dataset, output
        output.begin()
        self._own, self._visible = states_of(dataset), visible_state(dataset, lenient=True)

    def why_another(self, drew: bool = False) -> str:
        """What has happened to it since that may change the next sample; "" for nothing. ``drew``: random
        numbers were drawn.
        """
        if states_of(self._dataset) != self._own:
            return "changes the dataset's own state"
        if drew:
            return "draws random numbers"
        if self._output.wrote:
            return "prints something, or writes to a file that is open"
        changed = difference(self._visible, visible_state(self._dataset, lenient=True))
        return f"changes {changed}, or what it names" if changed else ""


def spread(length: int, seconds: float | None = None) -> Iterator[int]:
    """Indices spread over a dataset, as many as there is time to draw."""
    count = min(length, _SAMPLES)
    began = time.monotonic()
    for index in sorted({round(k * (length - 1) / max(1, count - 1)) for k in range(count)}):
        yield index
        if time.monotonic() - began > (_CHILD_SECONDS if seconds is None else seconds):
            return


class Marked:
    """A value in an unfinished sample: the remaining transforms go on from it."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


def is_picture(value: object) -> bool:
    """Whether ``value`` is a Pillow image that is loaded, not tied to a file."""
    return type(value).__module__ == "PIL.Image" and type(value).__name__ == "Image"


def same_sample(a: Any, b: Any) -> bool:
    """Equal in structure and in every byte. Types that cannot be compared this way count as different."""
    if type(a) is not type(b):
        return False
    if hasattr(a, "element_size"):  # a tensor
        alike = a.dtype == b.dtype and a.shape == b.shape and a.device == b.device
        return bool(alike) and raw_bytes(a) == raw_bytes(b)
    if hasattr(a, "tobytes") and hasattr(a, "dtype"):  # a numpy array or scalar
        return bool(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())
    if is_picture(a):
        return bool(a.mode == b.mode and a.size == b.size and a.getpalette() == b.getpalette()) and bool(
            a.tobytes() == b.tobytes()
        )
    if isinstance(a, Marked):
        return same_sample(a.value, b.value)
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(same_sample, a, b))
    if isinstance(a, dict):
        return bool(list(a) == list(b)) and all(same_sample(a[key], b[key]) for key in a)
    if isinstance(a, float):
        return bool(a.hex() == b.hex())
    return isinstance(a, (int, str, bytes, type(None))) and bool(a == b)


def incomparable(sample: Any) -> str:
    """The name of a type in ``sample`` that ``same_sample`` does not know; "" if there is none."""
    if isinstance(sample, Marked):
        return incomparable(sample.value)
    if isinstance(sample, dict):
        sample = list(sample.values())
    if isinstance(sample, (tuple, list)):
        return next((kind for part in sample if (kind := incomparable(part))), "")
    known = hasattr(sample, "element_size") or (hasattr(sample, "tobytes") and hasattr(sample, "dtype"))
    known = known or is_picture(sample) or isinstance(sample, (float, int, str, bytes, type(None)))
    return "" if known else type(sample).__qualname__


def raw_bytes(tensor: Tensor) -> bytes:
    """The bytes of a tensor's elements in the order of its dimensions."""
    import ctypes

    plain = tensor.detach().cpu().contiguous()
    return ctypes.string_at(plain.data_ptr(), plain.numel() * plain.element_size()) if plain.numel() else b""


def sample_nbytes(sample: Any) -> int:
    """Bytes of data in a sample, without its Python objects."""
    if hasattr(sample, "element_size"):
        return int(sample.numel() * sample.element_size())
    if hasattr(sample, "nbytes"):
        return int(sample.nbytes)
    if is_picture(sample):
        return len(sample.tobytes())
    if isinstance(sample, Marked):
        return sample_nbytes(sample.value)
    if isinstance(sample, dict):
        sample = list(sample.values())
    if isinstance(sample, (tuple, list)):
        return sum(map(sample_nbytes, sample))
    return sys.getsizeof(sample)


def chain(dataset: object) -> Iterator[object]:
    """The dataset and those it wraps, by the attributes that Subset and ConcatDataset have."""
    pending, seen = [dataset], set()
    while pending:
        part = pending.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        inner = getattr(part, "dataset", None)
        pending += [inner] if inner is not None else []
        several = getattr(part, "datasets", None)
        pending += list(several) if isinstance(several, (list, tuple)) else []


def states_of(dataset: object) -> list[object]:
    """The fingerprints of the dataset and of each that it wraps."""
    return [state_of(part) for part in chain(dataset)]


def state_of(value: Any, depth: int = 4) -> object:
    """A cheap fingerprint of an object's state: plain attributes by value, large ones by version and size."""
    if isinstance(value, (int, float, str, bytes, bool, type(None))):
        return value if not isinstance(value, (str, bytes)) else hash(value)
    if hasattr(value, "element_size"):
        return (id(value), version_of(value), tuple(value.shape))
    if hasattr(value, "tobytes") and hasattr(value, "dtype"):
        return (
            id(value),
            value.shape,
            hash(value[:: max(1, len(value) // 64)].tobytes()) if value.ndim else value.tobytes(),
        )
    stream = state_of_generator(value)
    if stream is not None:
        return stream
    if depth == 0:
        return id(value)
    if isinstance(value, dict):
        items = list(value.items())[:64]
        return (len(value), [(str(key), state_of(item, depth - 1)) for key, item in items])
    if isinstance(value, (list, tuple, set, frozenset)):
        return (len(value), [state_of(item, depth - 1) for item in list(value)[:64]])
    return (id(value), state_of(vars(value), depth - 1) if hasattr(value, "__dict__") else None)
