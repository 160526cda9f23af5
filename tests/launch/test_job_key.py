"""The secret of a job."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hasten.errors import UsageError
from hasten.launch.job_key import VARIABLE, job_key

pytestmark = pytest.mark.attack("intruders")
TOKEN = "sixteen letters."


def test_one_token_and_one_job_are_one_key() -> None:
    assert job_key({VARIABLE: TOKEN}, "a") == job_key({VARIABLE: TOKEN}, "a")
    others = {job_key({VARIABLE: TOKEN}, "b"), job_key({VARIABLE: TOKEN + "x"}, "a")}
    assert job_key({VARIABLE: TOKEN}, "a") not in others


def test_a_token_that_can_be_guessed_is_refused() -> None:
    with pytest.raises(UsageError, match="has 4 characters, which can be guessed") as raised:
        job_key({VARIABLE: "1234"}, "a")
    assert "1234" not in str(raised.value)


def test_hosts_with_one_home_share_a_file_that_nobody_else_reads(tmp_path: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    first = job_key(environment, "a")
    assert job_key(environment, "a") == first
    assert (tmp_path / "hasten" / "hosts.key").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in (tmp_path / "hasten").iterdir()] == ["hosts.key"]
    assert job_key({"XDG_CACHE_HOME": str(tmp_path / "another")}, "a") != first


@pytest.mark.parametrize("kind", ["a link", "others may write", "no folder"])
def test_what_somebody_else_may_have_put_there_is_not_used(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "hasten" / "hosts.key"
    if kind == "no folder":
        path.parent.write_text("")
    else:
        path.parent.mkdir()
        (tmp_path / "theirs").write_text("known to them")
        path.symlink_to(tmp_path / "theirs") if kind == "a link" else path.write_text("known to them")
        if kind == "others may write":
            os.chmod(path, 0o666)
    with pytest.raises(UsageError, match=f"set {VARIABLE} to the same secret on all hosts"):
        job_key({"XDG_CACHE_HOME": str(tmp_path)}, "a")
