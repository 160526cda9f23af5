"""Large values that a script fetches at once: the journal has them where they are small when compressed, as
classes of pixels are. Of others it has a checksum.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from typing import Any

LARGE = 2**22  # bytes
_SHARE = 4  # a compressed value takes at most this part of its size,
_LITTLE = 2**20  # or bytes
_PIECE = 2**20
_FAST = 1  # zlib's level


@dataclass(frozen=True)
class Packed:
    """``data``: compressed."""

    data: bytes
    is_text: bool

    def value(self) -> Any:
        data = zlib.decompress(self.data)
        return json.loads(data) if self.is_text else data


@dataclass(frozen=True)
class Large:
    """``data``: bytes of an array, or of JSON text. ``kind``: of what."""

    data: bytes
    kind: str
    is_text: bool = False

    def packed(self) -> Packed | None:
        """None where it takes too much."""
        most = max(len(self.data) // _SHARE, _LITTLE)
        packer, parts, size = zlib.compressobj(_FAST), list[bytes](), 0
        for at in range(0, len(self.data), _PIECE):
            parts.append(packer.compress(memoryview(self.data)[at : at + _PIECE]))
            size += len(parts[-1])
            if size > most:
                return None
        parts.append(packer.flush())
        return Packed(b"".join(parts), self.is_text) if size + len(parts[-1]) <= most else None

    def summed(self) -> dict[str, int]:
        return {"bytes": len(self.data), "crc": zlib.crc32(self.data)}

    def as_kept(self, kept: object) -> Any:
        """To be compared with what a journal has."""
        if is_summed(kept):
            return self.summed()
        return json.loads(self.data) if self.is_text else self.data


def is_summed(kept: object) -> bool:
    return isinstance(kept, dict) and set(kept) == {"bytes", "crc"}
