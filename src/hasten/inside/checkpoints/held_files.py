"""Files that a script holds and reads back by itself: in memory, and temporary ones. They are written while a
restart plays, as nothing outlives the script in them; so their content is compared.
"""

from __future__ import annotations

import io
import os
import stat
import zlib

_PIECE = 2**20
_STANDARD = 2  # the last of the descriptors that a process begins with


def summary_of(file: object) -> str:
    """Equal if the content is; "" for what is not written to, or no plain file."""
    if isinstance(file, (io.BytesIO, io.StringIO)):
        data = file.getvalue()
        data = data.encode("utf8", "replace") if isinstance(data, str) else data
        return f"{len(data):,} bytes, {zlib.crc32(data):08x}"
    try:
        if not isinstance(file, io.IOBase) or not file.writable() or file.fileno() <= _STANDARD:
            return ""
        file.flush()
        number = file.fileno()
        if not stat.S_ISREG(os.fstat(number).st_mode):
            return ""
        return _of_descriptor(number)
    except (OSError, ValueError):  # closed, or detached
        return ""


def _of_descriptor(number: int) -> str:
    """Opened once more, as it may have no name, and its position stays."""
    size = crc = 0
    descriptor = os.open(f"/proc/self/fd/{number}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        while piece := os.read(descriptor, _PIECE):
            size, crc = size + len(piece), zlib.crc32(piece, crc)
    finally:
        os.close(descriptor)
    return f"{size:,} bytes, {crc:08x}"
