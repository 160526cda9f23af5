"""What stays reachable while places are covered."""

from __future__ import annotations

from pathlib import Path

import pytest

from hasten.inside.sandbox import mounts
from hasten.inside.sandbox.covering import _Covering


def test_a_socket_that_is_gone_takes_no_other_along(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Other programs' sockets come and go: one that had gone failed all of the protection, and the trial."""

    def bind(path: str, name: str) -> None:
        if path == "/run/gone":
            raise FileNotFoundError(path)

    monkeypatch.setattr(mounts, "bind", bind)
    monkeypatch.chdir(tmp_path)
    held = _Covering("root", {})
    held.hold(["/run/user"], ["/run/gone", "/run/there", "/run/too"])
    assert list(held._held) == ["/run/user", "/run/there", "/run/too"]
    assert len(set(held._held.values())) == 3
