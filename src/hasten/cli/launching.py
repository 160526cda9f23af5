"""How ``hasten run`` hands its script to an engine: as a job, which the engine renders."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from . import engine_options
from .common import named_plan
from .engine_job import engine_name, job_of, on_hosts
from .starting import become, check_for_ranks, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    import click

    from ..launch.engines.engine import LaunchEngine, Rendered, Submission
    from ..records.diagnosis import Distribution
    from ..records.launch_job import LaunchJob
    from ..scripts.workspace import Script

_POLL_SECONDS = 0.1


def by_engine(arguments: SimpleNamespace) -> bool:
    """Whether the command line asks for an engine. Raises UsageError if only other options need one."""
    from ..errors import UsageError

    if arguments.engine not in (None, "local") or on_hosts(arguments):
        return True
    for name in sorted(engine_options.NAMES - {"engine", "nnodes", "render"}):
        if getattr(arguments, name) not in (None, False, ()):
            raise UsageError(
                f"--{name.replace('_', '-')} is for ranks that an engine starts: say which, as in --engine "
                "torchrun"
            )
    return bool(arguments.render)


def launch(
    script: Script, found: Distribution, arguments: SimpleNamespace, parameters: Sequence[click.Parameter]
) -> int:
    """The exit code, once all has ended. Raises HastenError if engine, job and script do not fit together."""
    from ..errors import UsageError
    from ..launch.engines.catalog import ENGINES
    from ..launch.engines.shown import shown
    from ..report.console import Outlet

    engine = ENGINES[engine_name(arguments)]
    _check(engine, arguments)
    job = job_of(script, arguments, parameters)
    rendered = engine.render(job)
    if job.nodes.most > 1 or not engine.does.starts_hasten:
        check_for_ranks(script, found, job.size, arguments.ranks, job.nodes.elastic)
    if arguments.render or engine.does.renders_only:
        Outlet(sys.stdout).write(shown(rendered, job.secrets))
        return 0
    why = engine.available()
    if why is not None:
        raise UsageError(f"the engine {engine.name} cannot be used here: {why}")
    return _carried_out(engine, job, rendered, arguments.detach)


def _check(engine: LaunchEngine, arguments: SimpleNamespace) -> None:
    """Raises UsageError for what would fail in every rank, and for options that the engine does not use."""
    named_plan(arguments)
    if arguments.detach and not engine.does.submits:
        raise engine.cannot("--detach: it ends with this command. Leave it out, or put the command into tmux")
    if arguments.image and not engine.does.contains:
        raise engine.cannot("--image: it starts no container. Leave it out")


def _carried_out(engine: LaunchEngine, job: LaunchJob, rendered: Rendered, detach: bool) -> int:
    """Start the job and wait for its end. If we are asked to end, so is the job."""
    only = rendered.starts[0] if len(rendered.starts) == 1 else None
    if only is not None and only.there is None and not engine.does.submits:  # it takes our place
        _write(rendered)
        become([*only.argv], {**os.environ, **only.environment})
    _write(rendered)
    ranks = "rank" if job.size == 1 else "ranks"
    submission = engine.submit(job, rendered)
    hosts = "hosts" if job.nodes.most > 1 else "host"
    say(f"{job.size} {ranks} on {job.nodes} {hosts} by {engine.name}{_named(submission)}")
    if detach and engine.does.submits:
        return 0
    return _waited(submission, rendered.output)


def _waited(submission: Submission, path: str) -> int:
    from ..launch.engines.job_output import Followed

    output = Followed(path)
    try:
        while (code := submission.poll()) is None:
            output.more()
            time.sleep(_POLL_SECONDS)
        output.more()
    except BaseException:
        submission.cancel()
        raise
    if code:
        cause = f": {submission.cause}" if submission.cause else ""
        say(f"the run failed with exit code {code}{_named(submission)}{cause}")
    return code


def _named(submission: Submission) -> str:
    return f" ({submission.label})" if submission.label else ""


def _write(rendered: Rendered) -> None:
    from ..errors import UsageError
    from ..safe_files import make_folder, write

    for path, text in rendered.files.items():
        try:
            make_folder(Path(path).parent)
            write(Path(path), text.encode())
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}") from None
