"""A copy of what a script holds, and putting it back into objects of the same paths."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any

from .cannot import Cannot, Diverged
from .heap import Found, Heap, text_of
from .tensor_bytes import address_of, bytes_of, crc_of, unexpanded

if TYPE_CHECKING:
    from torch import Tensor

_BIG = 2**20  # bytes from which on what did not change is not kept, but compared
_SAID = 3  # differences that a message names


@dataclass
class Image:
    """``storages``: copies of bytes in main memory (uint8 tensors); ``header`` is fit for JSON."""

    header: dict[str, Any]
    storages: list[Tensor]


@dataclass
class _Taken:
    """Storages by address: number, and the tensors that keep them."""

    numbers: dict[tuple[int, int], int] = field(default_factory=dict)
    copies: list[Tensor] = field(default_factory=list)
    about: list[dict[str, Any]] = field(default_factory=list)
    kept: list[Tensor] = field(default_factory=list)


class Images:
    """``first_look`` remembers large tensors that training may leave alone: data sets, frozen layers."""

    def __init__(self, torch: ModuleType, heap: Heap) -> None:
        self._torch, self._heap = torch, heap
        self._first: dict[tuple[int, int], int] = {}

    def first_look(self, frame: FrameType | None, optimizers: list[Any]) -> None:
        found = self._heap.look(frame, optimizers)
        for path, tensor in found.tensors.items():
            if path not in found.trained and tensor.layout == self._torch.strided:
                data = bytes_of(self._torch, tensor)
                if data.numel() >= _BIG:
                    self._first[address_of(data)] = crc_of(data)

    def take(self, found: Found, optimizers: list[Any]) -> Image:
        """A copy of everything that was found. Raises Cannot."""
        taken = _Taken()
        tensors = {}
        for path, tensor in found.tensors.items():
            tensors[path] = self._described(path, tensor, taken, path in found.trained)
        states = [self._state(n, optimizer, taken) for n, optimizer in enumerate(optimizers)]
        header = {
            "tensors": tensors,
            "plain": found.plain,
            "values": {
                path: getattr(*found.settable[path]) for path in found.settable if _is_json(found, path)
            },
            "optimizers": states,
            "storages": taken.about,
        }
        return Image(header, taken.copies)

    def _described(self, path: str, tensor: Tensor, taken: _Taken, trained: bool) -> dict[str, Any]:
        if tensor.layout != self._torch.strided or tensor.is_quantized:
            raise Cannot(f"{path} is a tensor of layout {tensor.layout}, which cannot be kept yet")
        if tensor.device.type == "meta":
            return {"meta": list(tensor.shape)}
        return {
            "storage": self._storage(tensor, taken, trained),
            "dtype": str(tensor.dtype),
            "shape": list(tensor.shape),
            "stride": list(tensor.stride()),
            "offset": tensor.storage_offset(),
            "device": str(tensor.device),
            "differentiated": tensor.requires_grad if tensor.is_leaf else None,
        }

    def _storage(self, tensor: Tensor, taken: _Taken, trained: bool) -> int:
        data = bytes_of(self._torch, tensor)
        key = address_of(data)
        if key in taken.numbers and data.numel():
            return taken.numbers[key]
        number = taken.numbers[key] = len(taken.about)
        taken.kept.append(data)
        crc = crc_of(data) if key in self._first and not trained else None
        same = crc is not None and self._first[key] == crc
        taken.about.append({"bytes": data.numel(), "crc": crc if same else None})
        taken.copies.append(data[:0].cpu() if same else data.to("cpu", copy=True))
        return number

    def _state(self, number: int, optimizer: Any, taken: _Taken) -> list[list[Any]]:
        """Under a parameter's place in the groups, or under a name."""
        found = []
        places = {
            id(parameter): [g, p]
            for g, group in enumerate(optimizer.param_groups)
            for p, parameter in enumerate(group["params"])
        }
        for key, value in optimizer.state.items():
            place = key if isinstance(key, (str, int)) else places.get(id(key))
            if place is None:
                raise Cannot(
                    f"optimizer {number} keeps a state for a {type(key).__qualname__} that is none of its "
                    "parameters, which cannot be kept"
                )
            packed = self._packed(f"state of optimizer {number}, {place}", value, taken)
            found.append([place, packed])
        return found

    def _packed(self, path: str, value: Any, taken: _Taken) -> Any:
        if isinstance(value, self._torch.Tensor):
            return {"t": self._described(path, value, taken, trained=True)}
        if isinstance(value, dict):
            parts = [[key, self._packed(f"{path}.{key}", part, taken)] for key, part in value.items()]
            if all(isinstance(key, (str, int)) for key in value):
                return {"d": parts}
        if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
            parts = [self._packed(path, part, taken) for part in value]
            return {"l" if isinstance(value, list) else "u": parts}
        if value is None or isinstance(value, (bool, int, float, str)):
            return {"v": value}
        raise Cannot(f"{path} is of class {type(value).__qualname__}, which cannot be kept")


def _is_json(found: Found, path: str) -> bool:
    return type(getattr(*found.settable[path])) in (bool, int, float, str, type(None))


class Restoring:
    """``body``: the bytes of all storages, as they were written."""

    def __init__(self, torch: ModuleType, header: dict[str, Any], body: memoryview) -> None:
        self._torch, self._header = torch, header
        self._storages: list[Tensor | None] = []
        self._held: dict[str, Tensor] = {}  # put back, by description: states may be among them
        at = 0
        for about in header["storages"]:
            if about["crc"] is not None:
                self._storages.append(None)
                continue
            end = at + about["bytes"]
            data = bytearray(body[at:end])  # writable, and not shared with what was read
            empty = torch.empty(0, dtype=torch.uint8)
            self._storages.append(torch.frombuffer(data, dtype=torch.uint8) if data else empty)
            at = end

    def put_back(self, found: Found, optimizers: list[Any]) -> None:
        """Raises Diverged if the script holds something else than it did."""
        if len(optimizers) != len(self._header["optimizers"]):
            raise Diverged(
                f"there were {len(self._header['optimizers'])} optimizers, and now {len(optimizers)}"
            )
        for path, (module, name) in found.settable.items():
            kept = self._header["values"]
            if path in kept and text_of(getattr(module, name)) != text_of(kept[path]):
                setattr(module, name, kept[path])
                if path in found.plain:
                    found.plain[path] = text_of(kept[path])
        self._gradients(found)
        self._compare(found)
        with self._torch.no_grad():
            for path, about in self._header["tensors"].items():
                tensor = found.tensors[path]
                self._fill(path, tensor, about)
                self._held[_place(about)] = tensor.detach() if tensor.requires_grad else tensor
            for optimizer, kept in zip(optimizers, self._header["optimizers"], strict=True):
                self._fill_state(optimizer, kept)

    def _gradients(self, found: Found) -> None:
        """Those that were there, and no others."""
        kept = self._header["tensors"]
        for path in [one for one in found.tensors if one in kept and not one.endswith(".grad")]:
            parameter, grad = found.tensors[path], f"{path}.grad"
            wanted = kept[path].get("differentiated")
            if wanted is not None and parameter.is_leaf and parameter.requires_grad != wanted:
                parameter.requires_grad_(wanted)  # a forward pass that was not computed had set it
            if not parameter.is_leaf or not parameter.requires_grad:
                continue
            if grad not in kept:
                parameter.grad = None
                found.tensors.pop(grad, None)
            elif grad not in found.tensors:
                parameter.grad = self.made(kept[grad]).to(parameter.device)
                found.tensors[grad] = parameter.grad

    def _compare(self, found: Found) -> None:
        differences = []
        plain = self._header["plain"]
        for path in plain.keys() | found.plain.keys():
            if plain.get(path) != found.plain.get(path):
                differences.append(
                    f"{path} was {plain.get(path, 'not there')} and is {found.plain.get(path, 'not there')}"
                )
        tensors = self._header["tensors"]
        for path in sorted(tensors.keys() ^ found.tensors.keys()):
            differences.append(f"the tensor {path} is there {'no more' if path in tensors else 'only now'}")
        if differences:
            differences.sort(key=lambda text: (len(text.split(" was ")[0]), text))
            more = len(differences) - _SAID
            raise Diverged("; ".join(differences[:_SAID]) + (f"; and {more:,} more" if more > 0 else ""))

    def _fill(self, path: str, tensor: Tensor, about: dict[str, Any]) -> None:
        if "meta" in about:
            return
        storage = self._storages[about["storage"]]
        if str(tensor.dtype) != about["dtype"] or tensor.device != self._torch.device(about["device"]):
            raise Diverged(
                f"{path} was {about['dtype']} on {about['device']} and is {tensor.dtype} on {tensor.device}"
            )
        if storage is None:
            data, was = bytes_of(self._torch, tensor), self._header["storages"][about["storage"]]
            if data.numel() != was["bytes"] or crc_of(data) != was["crc"]:
                raise Diverged(f"{path} has other values than it had")
            return
        made = self.made(about)
        if list(tensor.shape) != about["shape"]:
            tensor.data = made.to(tensor.device)
            return
        if tensor.is_conj() or tensor.is_neg():  # copy_ would write the conjugate of what was stored
            bytes_of(self._torch, tensor).copy_(storage)
            return
        with self._torch.inference_mode(tensor.is_inference()):
            unexpanded(tensor.detach()).copy_(unexpanded(made))

    def made(self, about: dict[str, Any]) -> Tensor:
        """The tensor of that description, in main memory."""
        storage = self._storages[about["storage"]]
        if storage is None:
            raise Diverged("a gradient is missing that was not kept")
        dtype = getattr(self._torch, about["dtype"].removeprefix("torch."))
        whole = self._torch.empty(0, dtype=dtype)
        made: Tensor = whole.set_(storage.untyped_storage(), about["offset"], about["shape"], about["stride"])
        return made

    def _fill_state(self, optimizer: Any, kept: list[list[Any]]) -> None:
        mine, new = optimizer.state, {}
        for place, packed in kept:
            key = optimizer.param_groups[place[0]]["params"][place[1]] if isinstance(place, list) else place
            new[key] = self._unpacked(packed, mine.get(key))
        mine.clear()
        mine.update(new)

    def _unpacked(self, packed: dict[str, Any], here: Any) -> Any:
        if "t" in packed:
            about = packed["t"]
            if _place(about) in self._held:
                return self._held[_place(about)]
            made = self.made(about).clone(memory_format=self._torch.preserve_format)
            return made.to(about["device"])
        if "d" in packed:
            inner = here if isinstance(here, dict) else {}  # which the script may hold, too
            parts = {key: self._unpacked(part, inner.get(key)) for key, part in packed["d"]}
            inner.clear()
            inner.update(parts)
            return inner
        if "l" in packed:
            return [self._unpacked(part, None) for part in packed["l"]]
        if "u" in packed:
            return tuple(self._unpacked(part, None) for part in packed["u"])
        return packed["v"]


def _place(about: dict[str, Any]) -> str:
    """Equal for tensors that are the same memory, read in the same way."""
    return repr([about.get(name) for name in ("storage", "dtype", "offset", "shape", "stride", "meta")])
