"""Whether several ranks can train a script: found out once, then remembered next to its plan."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from .. import __version__, safe_files
from ..bench.rehearsal import rehearse
from ..bench.trials import Trials
from ..errors import Refusal, UsageError
from ..launch.ranks_of_plan import Wish
from ..machine.torch_build import torch_version
from ..plans.own import prepare
from ..records.codec import from_json, to_json
from ..records.ranks import Findings
from ..scripts.reading import parts_of
from ..scripts.sources import changed_since, digest_of
from ..scripts.workspace import Script, Workspace

_FILE = "ranks.json"
_MOST_BYTES = 2**20
_OF_A_TERMINAL = {  # or of a login: they differ between terminals, and do not affect a training
    *("_", "SHLVL", "PWD", "OLDPWD", "COLUMNS", "LINES", "DISPLAY", "WINDOWID", "PYTEST_CURRENT_TEST"),
    *("DBUS_SESSION_BUS_ADDRESS", "STY", "TMUX", "TMUX_PANE", "GPG_AGENT_INFO", "HISTFILE"),
}
_KINDS_OF_TERMINAL = ("TERM", "SSH_", "XDG_SESSION_", "VTE_", "COLORTERM", "VSCODE_", "HASTEN_")


def findings_for(script: Script, wish: Wish, trials: Trials, say: Callable[[str], None]) -> Findings:
    """What a rehearsal found, now or earlier for the same script, arguments, machine and torch. ``trials``
    have their sources.

    Raises Refusal if the ranks would not train what one process trains, UnsafeFile if something else
    is in the place of what was remembered, and all that ``rehearse`` raises.
    """
    workspace = Workspace(script)
    path = workspace.folder / _FILE
    sources = trials.sources
    assert sources is not None
    identity, world = _identity(script, wish, trials), trials.stage.world
    known = _kept(path, script, identity)
    told = [known] if world is None else world.share(known)
    if known is not None and all(one == known for one in told):
        return from_json(Findings, known)
    count, where = wish.count, ""
    if world is not None:
        hosts = len(world.by_host)
        count, where = world.size, f" on {hosts} hosts" if hosts > 1 else ""
    say(f"rehearsing the first step in one process and in {count}{where}")
    found = rehearse(trials, wish)
    if found.refusals:
        raise Refusal(
            f"{script.label} cannot be trained by {count} ranks{where}: {'; '.join(found.refusals)}"
        )
    sources.check()
    prepare(workspace)
    made = {"made_for": identity, "modules": dict(sources.digests().modules), "findings": to_json(found)}
    safe_files.write(path, json.dumps(made).encode())
    return found


def _kept(path: Path, script: Script, identity: Mapping[str, Any]) -> Any:
    """The findings of an earlier rehearsal of the same, read from JSON; None if there are none."""
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):  # not UnsafeFile
        kept: dict[str, Any] = json.loads(safe_files.read(path, _MOST_BYTES))
        if kept["made_for"] == identity and not changed_since(script, kept["modules"]):
            from_json(Findings, kept["findings"])
            return kept["findings"]
    return None


def _identity(script: Script, wish: Wish, trials: Trials) -> dict[str, Any]:
    """Equal if the findings still hold, except for modules; as JSON returns it."""
    world = trials.stage.world
    hosts = {} if world is None else {"hosts": [len(host) for host in world.by_host]}
    return {
        **hosts,
        "argv": list(script.argv),
        "digest": script.digest(),
        "beside": _beside(script),
        "environment": _digest_of(trials.stage.environment),
        "machine": trials.stage.machine.identity,
        "torch": torch_version(),
        "hasten": __version__,
        "ranks": to_json(wish.rehearsed),
    }


def _beside(script: Script) -> dict[str, str]:
    """Digests of everything the script imports from its folder, some of it after its first steps."""
    try:
        names = {part.name.partition(", cell ")[0] for part in parts_of(script)}
    except UsageError:  # the worker reports what there is, as far as it gets
        return {}
    return {name: digest_of(name) for name in sorted(names) if os.path.exists(name)}


def _digest_of(environment: Mapping[str, str]) -> str:
    """A digest of all that may affect a training. Values may be secrets, so they are not kept."""
    told = [
        (name, value)
        for name, value in sorted(environment.items())
        if name not in _OF_A_TERMINAL and not name.startswith(_KINDS_OF_TERMINAL)
    ]
    return hashlib.blake2b(repr(told).encode(errors="replace"), digest_size=16).hexdigest()
