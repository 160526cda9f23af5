"""What an engine of ours told this process, a rank, in its environment; and what that makes of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, MutableMapping

from ..errors import UsageError
from ..records.codec import from_json, to_json
from ..records.launch_job import Launched
from .launched_rank import LaunchedRank
from .network import address_towards, interface_of

VARIABLE = "HASTEN_LAUNCHED"
_INTERFACES = ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
_IF_SAID = ("NCCL_SOCKET_IFNAME",)  # NCCL finds by itself what is faster than what leads to a master
_THREADS = "OMP_NUM_THREADS"


def variables_of(launched: Launched, environment: Mapping[str, str]) -> dict[str, str]:
    """What an engine sets for all ranks. ``environment``: the user's own, in which all that is set stays."""
    made = {
        VARIABLE: json.dumps(to_json(launched)),
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",  # else a rank that is killed takes others along
        "OMP_NUM_THREADS": launched.threads or "1",  # of the launcher itself; ranks find theirs
    }
    if launched.interface:
        made |= dict.fromkeys((*_INTERFACES, *_IF_SAID), launched.interface)
    kept = {name for name in made if name in environment} - {VARIABLE}
    return {name: value for name, value in made.items() if name not in kept}


def take(environment: MutableMapping[str, str]) -> Launched | None:
    """Out of ``environment``, which then has the user's own number of threads, or none.

    None if no engine of ours started this. Raises UsageError if something else has set it.
    """
    text = environment.pop(VARIABLE, None)
    if text is None:
        return None
    try:
        told = json.loads(text)
        launched = from_json(Launched, told)
        if to_json(launched) != told:
            raise ValueError("something is missing, or is more")
    except (ValueError, TypeError, AttributeError):
        raise UsageError(f"{VARIABLE} is hasten's own, and is {text[:60]!r} here: unset it") from None
    if launched.threads:
        environment[_THREADS] = launched.threads
    else:
        environment.pop(_THREADS, None)
    return launched


def network_of(rank: LaunchedRank, environment: Mapping[str, str]) -> dict[str, str]:
    """Variables that name the interface by which a rank is reached, if ranks are on several hosts and the
    user has not set them.

    Raises UsageError if the other hosts would not reach it.
    """
    master = environment.get("MASTER_ADDR", "")
    missing = [name for name in _INTERFACES if name not in environment]
    if rank.local_size >= rank.size or not master or not missing:
        return {}
    found = interface_of(address_towards(master))
    return dict.fromkeys(missing, found) if found else {}
