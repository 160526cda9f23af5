"""torchrun on this host, told by which address the others reach it.

Run by path: ``python torchrun_entry.py TOWARDS INTERFACE TORCHRUN-WORDS...``. ``TOWARDS`` is the host where
ranks meet, ``INTERFACE`` a network's or empty; both empty where all ranks are on this host. torchrun itself
would tell the others this host's name, which often leads nowhere. Nothing is imported from the working
directory, as ``python -m`` would.
"""

from __future__ import annotations

import runpy
import sys


def local_address(towards: str, interface: str) -> list[str]:
    """This host's address as arguments for torchrun. Raises UsageError if others cannot reach any."""
    from hasten.launch.network import address_of, address_towards

    if not towards:
        return []
    return ["--local-addr", address_of(interface) if interface else address_towards(towards)]


def main(towards: str, interface: str, words: list[str]) -> None:
    """Does not return where torchrun fails: it raises SystemExit."""
    from hasten.errors import UsageError
    from hasten.saying import say

    try:
        sys.argv[1:] = [*local_address(towards, interface), *words]
    except UsageError as error:
        say(f"hasten: {error}")
        raise SystemExit(error.exit_code) from None
    runpy.run_module("torch.distributed.run", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    from entry import find_ourselves  # type: ignore[import-not-found]

    find_ourselves()
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
