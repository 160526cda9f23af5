"""What a script holds between two steps: everything reached from its frames and its modules' globals.

Each thing has a path of names ("main: trainer.model.weight") that is the same in a run that did the same.
Tensors are found wherever they are; plain values only in the script's own objects, in torch's, and in
containers of theirs, because a library's may depend on the clock.
"""

from __future__ import annotations

import functools
import marshal
import sys
import types
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from ..class_names import module_of
from ..internals.loaders import iterator_kind
from ..package import INSIDE
from ..random_state import state_of_generator
from .cannot import Cannot
from .frames import frames, is_below, is_pythons, locals_of
from .held_files import summary_of

if TYPE_CHECKING:
    from torch import Tensor

Frame: TypeAlias = types.FrameType | None
_PLAIN = (int, float, complex, bool, str, bytes, type(None), type(Ellipsis), range)
_CONTAINERS = (dict, list, tuple, set, frozenset, deque)
_FUNCTIONS = (types.FunctionType, types.MethodType, functools.partial)
_MOST = 3_000_000  # things: a second or two
_MOST_KEY = 2**32  # what is above is an address
_MANY = 8  # things in a container that is looked at as a whole where it can be
_SAMPLED = 2**23  # bytes of an array from which on only some are looked at
_OF_MODULES = ("_modules", "_parameters", "_buffers", "training")
_OF_UPDATES = "_need_device_dtype_check_for_fused"  # an optimizer's first fused update is over
_LEFT_OUT = ("datetime", "threading", "_thread", "weakref", "multiprocessing", "queue", "uuid", "logging")
_OF_RUNNING = {  # what Python puts into a module
    "__warningregistry__",
    *("__builtins__", "__name__", "__doc__", "__package__", "__loader__", "__spec__", "__file__"),
    "__cached__",
}


@dataclass
class Found:
    """``tensors`` and ``plain`` by path; the latter's text is equal if the value is. ``settable``: plain
    attributes of modules, which their forward passes may have changed: (module, name).
    """

    tensors: dict[str, Tensor] = field(default_factory=dict)
    plain: dict[str, str] = field(default_factory=dict)
    settable: dict[str, tuple[Any, str]] = field(default_factory=dict)
    trained: set[str] = field(default_factory=set)  # paths of parameters, and what goes with them


class Heap:
    """``is_own``: whether a module's name is one of the script's; ``is_local``: whether a file is;
    ``is_followed``: whether an open file goes on where it was.
    """

    def __init__(
        self,
        torch: types.ModuleType,
        is_own: Callable[[str], bool],
        is_local: Callable[[str], bool],
        is_followed: Callable[[object], bool],
    ) -> None:
        self._torch, self._is_own, self._is_local = torch, is_own, is_local
        self._is_followed = is_followed
        self._found, self._seen, self._keep = Found(), set[int](), list[object]()
        self._iterator = iterator_kind()

    def look(self, frame: Frame, optimizers: list[Any], models: Sequence[Any] = ()) -> Found:
        """``frame``: the innermost one. ``optimizers``: their ``state`` is left to who asks. ``models``:
        those that were called.
        """
        self._found, self._seen, self._keep = Found(), set[int](), list[object]()
        self._skipped = {id(one.state) for one in optimizers}
        self._waiting: deque[tuple[str, object, bool]] = deque()
        now_strict = True
        for path, file, names in frames(frame, self._torch.__path__[0]):
            self._names(path, names, self._is_local(file))
        for name, module in sorted(sys.modules.items()):
            if self._is_own(name) and isinstance(module, types.ModuleType):
                self._names(name, vars(module))
        for number, model in enumerate(models):
            self._waiting.append((f"model {number}", model, True))
        for number, optimizer in enumerate(optimizers):
            self._waiting.append((f"optimizer {number}", optimizer, True))
        later: list[tuple[str, object]] = []  # of libraries: what the script's own objects hold comes first
        while self._waiting or later:
            if not self._waiting:
                self._waiting.extend((path, value, False) for path, value in later)
                later = []
                now_strict = False
            path, value, strict = self._waiting.popleft()
            if strict or not now_strict:
                self._visit(path, value, strict)
            else:
                later.append((path, value))
        found, self._found, self._keep = self._found, Found(), []  # nothing is kept alive by us
        return found

    def _names(self, path: str, names: dict[str, Any], strict: bool = True) -> None:
        for name, value in list(names.items()):
            if name not in _OF_RUNNING:
                self._waiting.append((f"{path}: {name}", value, strict))

    def _visit(self, path: str, value: object, strict: bool) -> None:
        if isinstance(value, _PLAIN):
            if strict:
                self._found.plain[path] = text_of(value)
            return
        if id(value) in self._seen or id(value) in self._skipped:
            return
        self._seen.add(id(value))
        self._keep.append(value)  # what is made on the way keeps its id
        if len(self._seen) > _MOST:
            raise Cannot(f"the script holds more than {_MOST:,} objects, too many to look at ({path} is one)")
        if isinstance(value, self._torch.Tensor):
            self._tensor(path, value)
        elif isinstance(value, _CONTAINERS):
            self._container(path, value, strict)
        elif isinstance(value, _FUNCTIONS):
            self._function(path, value, strict)
        elif isinstance(value, types.GeneratorType):
            if value.gi_frame is not None and self._is_scripts(value.gi_code):
                self._names(path, locals_of(value.gi_frame), self._is_local(value.gi_code.co_filename))
        elif isinstance(value, type):
            if self._is_own(value.__module__):
                self._attributes(path, dict(vars(value)), strict)
        elif not isinstance(value, (types.ModuleType, types.CodeType, types.FrameType, self._iterator)):
            self._object(path, value, strict)

    def _is_scripts(self, code: types.CodeType) -> bool:
        return not is_below(code.co_filename, self._torch.__path__[0]) and not is_pythons(code)

    def _tensor(self, path: str, tensor: Tensor) -> None:
        self._found.tensors[path] = tensor
        if tensor.is_leaf and tensor.requires_grad:
            self._found.trained.add(path)
            if tensor.grad is not None:
                self._seen.add(id(tensor.grad))
                self._keep.append(tensor.grad)
                self._found.tensors[f"{path}.grad"] = tensor.grad
                self._found.trained.add(f"{path}.grad")

    def _container(self, path: str, value: Any, strict: bool) -> None:
        if len(value) > _MANY and type(value) in (list, dict, tuple, set, frozenset):
            try:
                data = marshal.dumps(value, 2)  # fails at the first that is no plain value
            except ValueError:
                pass
            else:
                if strict:
                    self._found.plain[path] = f"{len(value):,} values, {zlib.crc32(data):08x}"
                return
        if strict:
            self._found.plain[path] = f"{type(value).__name__} of {len(value):,}"
        if isinstance(value, dict):
            for number, (key, part) in enumerate(list(value.items())):
                plain = isinstance(key, str) or (isinstance(key, int) and abs(key) < _MOST_KEY)
                self._waiting.append((f"{path}[{key!r}]" if plain else f"{path}[key {number}]", part, strict))
                if not (plain or isinstance(key, int)):
                    self._waiting.append((f"{path}.key {number}", key, strict))
        elif isinstance(value, (set, frozenset)):
            if all(isinstance(part, _PLAIN) for part in value) and strict:
                self._found.plain[path] = text_of(sorted(map(repr, value)))
        else:
            for number, part in enumerate(list(value)):
                self._waiting.append((f"{path}[{number}]", part, strict))
        if type(value) not in (dict, list, tuple, set, frozenset, deque) and hasattr(value, "__dict__"):
            self._attributes(path, vars(value), strict)

    def _function(self, path: str, value: Any, strict: bool) -> None:
        if isinstance(value, types.MethodType):
            self._waiting.append((f"{path}.self", value.__self__, strict))
            value = value.__func__
        while isinstance(value, types.FunctionType) and is_below(value.__code__.co_filename, INSIDE):
            value = getattr(value, "__wrapped__", None)  # ours, around one of a class of the script's
        if isinstance(value, functools.partial):
            self._waiting.append((f"{path}.func", value.func, strict))
            self._waiting.append((f"{path}.args", value.args, strict))
            self._waiting.append((f"{path}.keywords", value.keywords, strict))
        elif isinstance(value, types.FunctionType) and self._is_scripts(value.__code__):
            for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=False):
                content = _content(cell)
                if content is not None:
                    self._waiting.append((f"{path}.{name}", content, strict))
            if value.__defaults__:
                self._waiting.append((f"{path}.defaults", value.__defaults__, strict))

    def _object(self, path: str, value: object, strict: bool) -> None:
        numpy, kind = sys.modules.get("numpy"), type(value)
        module = module_of(kind)
        if module.startswith(("hasten.", *_LEFT_OUT)):
            return
        if module in ("io", "_io"):
            text = summary_of(value) if strict and not self._is_followed(value) else ""
            if text:
                self._found.plain[path] = text
            return
        if module == "tempfile":
            inner = getattr(value, "__dict__", {})
            self._waiting.extend((path, inner[name], strict) for name in ("file", "_file") if name in inner)
            return
        stream = state_of_generator(value)
        if stream is not None:
            self._found.plain[path] = f"random state {zlib.crc32(repr(stream).encode()):08x}"
        elif numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
            if strict:
                self._found.plain[path] = _text_of_array(value)
        elif module.startswith("torch._") and isinstance(value, self._torch.nn.Module):  # compiled
            inner = {name: vars(value)[name] for name in _OF_MODULES if name in vars(value)}
            self._attributes(path, inner, strict, value)
        elif module.startswith("torch._") or module.startswith("torch.utils.tensorboard"):
            self._attributes(path, getattr(value, "__dict__", {}), strict=False)
        else:
            trains = isinstance(value, (self._torch.nn.Module, self._torch.optim.Optimizer))
            own = (
                trains
                or self._is_own(module)
                or module.split(".")[0] in ("torch", "types", "argparse", "enum")
            )
            self._attributes(path, getattr(value, "__dict__", {}), strict and own, value)
            self._attributes(path, _slots_of(value), strict and own)

    def _attributes(self, path: str, names: Any, strict: bool, owner: object = None) -> None:
        of_module = isinstance(owner, self._torch.nn.Module)
        for name, value in list(names.items()):
            if name.startswith("__") or (of_module and name == "_compiled_call_impl") or name == _OF_UPDATES:
                continue
            at = f"{path}.{name}"
            if of_module and isinstance(value, _PLAIN):
                self._found.settable[at] = owner, name
            self._waiting.append((at, value, strict))


def _slots_of(value: object) -> dict[str, Any]:
    """What an object has outside of a dictionary."""
    found = {}
    for kind in type(value).__mro__:
        for name, slot in vars(kind).items():
            if isinstance(slot, types.MemberDescriptorType):
                with suppress(AttributeError):  # not set yet
                    found[name] = slot.__get__(value)
    return found


def text_of(value: object) -> str:
    """Equal if the value is; short enough for a message."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:60]}... {zlib.crc32(text.encode('utf8', 'replace')):08x}"


def _text_of_array(value: Any) -> str:
    import numpy

    array = numpy.asarray(value)
    if array.dtype.hasobject:
        return f"array of {array.size:,} objects"
    if array.size == 1:
        return repr(array.item())
    if array.nbytes > _SAMPLED:
        array = array.reshape(-1)[:: max(1, array.size // 65_536)]
    data = numpy.ascontiguousarray(array)
    return f"array {value.shape} {value.dtype}, {zlib.crc32(data.tobytes()):08x}"


def _content(cell: Any) -> object:
    try:
        found: object = cell.cell_contents
    except ValueError:  # not set yet
        return None
    return found
