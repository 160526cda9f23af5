"""What holds for every engine."""

from __future__ import annotations

import builtins
import os
import socket
import subprocess
from dataclasses import replace

import pytest

from hasten.errors import UsageError
from hasten.launch.engines.catalog import ENGINES
from hasten.launch.engines.engine import LaunchEngine, Rendered
from hasten.launch.engines.shown import shown
from hasten.records.launch_job import LaunchJob, Nodes

from .jobs import JOB

EVERY = pytest.mark.parametrize("engine", ENGINES.values(), ids=lambda engine: engine.name)
HIDDEN = "not-to-be-shown"


def job_for(engine: LaunchEngine) -> LaunchJob:
    """Of as many hosts as it takes, with a secret."""
    environment = {**JOB.environment, "A_TOKEN": HIDDEN}
    job = replace(JOB, nproc_per_node=2, environment=environment, secrets=frozenset({"A_TOKEN"}))
    if engine.does.contains:
        job = replace(job, image="train:1")
    if engine.name == "local":
        return job
    job = replace(job, nodes=Nodes(2, 2))
    if engine.name in ("docker", "apptainer"):
        return replace(job, address="h1")
    return job if engine.does.hosts else replace(job, hosts=("h1", "h2"))


def everything_of(rendered: Rendered) -> str:
    """All that another user of the machine could see."""
    words = [word for start in rendered.starts for word in start.argv]
    return "\n".join([*words, *rendered.files, *rendered.files.values(), rendered.output])


@EVERY
def test_rendering_is_pure(engine: LaunchEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    def touched(*_: object, **__: object) -> None:
        raise AssertionError("rendering reads nothing, asks nobody and starts nothing")

    job = job_for(engine)
    first = engine.render(job)
    for owner, name in ((builtins, "open"), (os, "open"), (os, "stat"), (subprocess, "Popen")):
        monkeypatch.setattr(owner, name, touched)
    monkeypatch.setattr(socket, "socket", touched)
    monkeypatch.setattr(os, "environ", {})
    second = engine.render(job)
    monkeypatch.undo()
    assert first == second


@EVERY
def test_what_is_to_run_is_in_what_is_rendered(engine: LaunchEngine) -> None:
    rendered = engine.render(job_for(engine))
    inner = [word for start in rendered.starts if start.there for word in start.there.argv]
    assert "train.py" in everything_of(rendered) + "\n".join(inner)


@EVERY
def test_no_secret_is_on_a_command_line_or_in_a_file(engine: LaunchEngine) -> None:
    job = job_for(engine)
    rendered = engine.render(job)
    assert HIDDEN not in everything_of(rendered)
    assert HIDDEN not in shown(rendered, job.secrets)


@EVERY
def test_hosts_that_come_and_go_are_refused_by_name_where_that_cannot_be(engine: LaunchEngine) -> None:
    job = job_for(engine)
    elastic = replace(job, nodes=Nodes(1, 2))
    if engine.does.elastic:
        assert engine.render(elastic) != engine.render(job)
    else:
        with pytest.raises(UsageError, match=f"the engine {engine.name} does not take"):
            engine.render(elastic)


@EVERY
def test_restarts_are_refused_by_name_where_there_are_none(engine: LaunchEngine) -> None:
    job = job_for(engine)
    again = replace(job, max_restarts=2)
    if engine.does.restarts:
        assert engine.render(again) != engine.render(job)
    else:
        with pytest.raises(UsageError, match=f"the engine {engine.name} does not take --max-restarts 2"):
            engine.render(again)


@EVERY
def test_hosts_are_refused_by_name_where_the_engine_has_its_own(engine: LaunchEngine) -> None:
    if engine.does.hosts or engine.name == "local":
        with pytest.raises(UsageError, match=f"the engine {engine.name} does not take"):
            engine.render(replace(job_for(engine), hosts=("h1", "h2")))


@EVERY
def test_why_an_engine_is_not_here_is_told(engine: LaunchEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    why = engine.available()
    assert why is None or len(why) > 20
    if engine.name in ("slurm", "mpich"):
        assert why is not None


def test_engines_are_called_by_their_names() -> None:
    assert all(engine.name == name for name, engine in ENGINES.items())
