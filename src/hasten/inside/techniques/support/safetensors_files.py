"""Files of the library safetensors, used by ``save_pretrained``: written and read without Python."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

from ...seams import Seams, when_it_comes
from .waiting_for_saves import ask_for

_PACKAGE = "safetensors"
_OF_THEIRS = (_PACKAGE, "safetensors.torch", "safetensors.numpy")
_WRITER = "serialize_file"
_READERS = ("safe_open", "_safe_open_handle")


@dataclass(frozen=True)
class File:
    """A file to save. ``content`` makes its bytes, about ``size``; ``as_ever`` writes it now, as usual;
    ``begin`` makes an empty one at another path, with the permissions that the library chooses.
    """

    path: Any
    size: int
    content: Callable[[], bytes]
    as_ever: Callable[[], object]
    begin: Callable[[str], object]

    def write(self, path: str, content: bytes) -> None:
        self.begin(path)
        with open(path, "wb") as file:
            file.write(content)


SaveFile = Callable[[File], object]


def defer_files(save: SaveFile, seams: Seams) -> None:
    """Let ``save`` write the library's files, and make its readers wait for them. If the script holds a
    reader already, which could not be made to wait, nothing is changed.
    """
    when_it_comes(seams, _PACKAGE, partial(_defer, save, seams))


def _defer(save: SaveFile, seams: Seams, package: ModuleType) -> None:
    readers = [reader for name in _READERS if (reader := getattr(package, name, None)) is not None]
    if not hasattr(package, _WRITER) or not hasattr(package, "serialize") or _are_held(readers):
        return
    for module in [sys.modules[name] for name in _OF_THEIRS if name in sys.modules]:
        if hasattr(module, _WRITER):
            seams.replace(module, _WRITER, partial(_deferred, save, package.serialize))
        for name in _READERS:
            if hasattr(module, name):
                seams.replace(module, name, _waiting)


def _are_held(readers: list[object]) -> bool:
    """Whether anything other than safetensors itself holds one."""
    others = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] != _PACKAGE]
    held = (list(vars(module).values()) for module in others if isinstance(module, ModuleType))
    return any(value is reader for values in held for value in values for reader in readers)


def _deferred(save: SaveFile, serialize: Any, original: Any) -> Any:
    def serialize_file(tensors: Mapping[str, Any], filename: Any, metadata: Any = None) -> object:
        size = sum(map(_size_of, tensors.values()))
        as_ever = partial(original, tensors, filename, metadata=metadata)
        return save(
            File(filename, size, partial(serialize, tensors, metadata), as_ever, partial(original, {}))
        )

    return serialize_file


def _size_of(tensor: Any) -> int:
    """Bytes of a tensor: older versions of the library pass the bytes, newer ones their address."""
    return int(tensor.data_len) if hasattr(tensor, "data_len") else len(tensor["data"])


def _waiting(original: Any) -> Any:
    """A class in place of a reader's, which waits for the file before it opens it."""

    class Waiting(type):
        def __call__(cls, *args: Any, **kwargs: Any) -> object:
            ask_for(args[0] if args else kwargs.get("filename"))
            return original(*args, **kwargs)

        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, original)

        def __getattr__(cls, name: str) -> object:
            return getattr(original, name)

    return Waiting(original.__name__, (), {"__doc__": original.__doc__, "__module__": original.__module__})
