"""What a machine says of user namespaces."""

from __future__ import annotations

from pathlib import Path

import pytest

from hasten.inside.sandbox import mounts
from hasten.inside.sandbox.user_namespaces import switched_off


def settings(folder: Path, name: str, value: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{value}\n")
    return folder


@pytest.mark.attack("messages")
@pytest.mark.parametrize(
    ("name", "off", "on"),
    [
        ("user/max_user_namespaces", "0", "96000"),
        ("kernel/unprivileged_userns_clone", "0", "1"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "0"),
    ],
)
def test_the_setting_that_switches_them_off_is_named(tmp_path: Path, name: str, off: str, on: str) -> None:
    said = switched_off(settings(tmp_path, name, off))
    assert said.endswith(f"({name.replace('/', '.')})")
    assert switched_off(settings(tmp_path, name, on)) == ""
    assert switched_off(settings(tmp_path, name, "what?")) == ""


def test_a_machine_that_knows_no_such_setting_says_nothing(tmp_path: Path) -> None:
    assert switched_off(tmp_path) == ""


@pytest.mark.attack("messages")
def test_a_refusal_of_the_kernel_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(namespaces: int) -> None:
        raise OSError("the kernel refused unshare: No space left on device")

    monkeypatch.setattr(mounts, "is_admin", lambda: False)
    monkeypatch.setattr(mounts, "_leave_as_user", refused)
    monkeypatch.setattr(mounts, "switched_off", lambda: "user namespaces are switched off (a setting)")
    with pytest.raises(OSError, match=r"^user namespaces are switched off \(a setting\); the kernel refused"):
        mounts.leave_shared_mounts()
