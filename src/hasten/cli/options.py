"""Options shared by several verbs, as click declares them. All of ours come before the script's name."""

from __future__ import annotations

from typing import Any

import click
from click.shell_completion import CompletionItem

from .values import MOST_PROCESSES, file_name, whole_number

BACKENDS = ("gloo", "shm", "mpi", "ccl")
"""Those that may replace the one that a script names."""


class OneOf(click.Choice[str]):
    """An option's type. An invalid choice is quoted as typed, with all valid ones."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        return f"invalid choice: {value!r} (choose from {', '.join(map(repr, self.choices))})"


def files(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """For completion: the shell's own, of file names."""
    return [CompletionItem(begun, type="file")]


def _names_of_techniques(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    from ..inside.techniques.catalog import CATALOG

    return [name for name in CATALOG if name.startswith(begun)]


def script(required: bool = True) -> tuple[click.Parameter, ...]:
    """``words``: the script's name, or with ``as_module`` a module's, and everything after it, unchanged."""

    def named(context: click.Context, parameter: click.Parameter, words: tuple[str, ...]) -> tuple[str, ...]:
        if not words and context.params.get("as_module"):
            context.fail("argument -m: expected a module's name")
        if not words and required:
            context.fail("the following arguments are required: SCRIPT")
        return words

    metavar = "SCRIPT [ARGUMENT]..."
    return (
        click.Option(
            ["-m", "as_module"],
            is_flag=True,
            help="treat SCRIPT as a module's name, such as package.train, and run it like python -m",
        ),
        click.Argument(
            ["words"],
            nargs=-1,
            required=False,
            type=click.UNPROCESSED,
            metavar=metavar if required else f"[{metavar}]",
            callback=named,
            shell_complete=files,
        ),
    )


def ranks(do: str) -> tuple[click.Option, ...]:
    """``do``: what is done with this many processes: "tune"."""
    return (
        nproc_per_node(f"for a script that is distributed itself: {do} it in N processes on this machine"),
        backend("use this instead of the backend that such a script names, on CPUs"),
    )


def nproc_per_node(text: str) -> click.Option:
    """How many ranks a script has that is distributed itself; None if not given. ``text``: its help,
    which differs by verb.
    """
    return click.Option(["--nproc-per-node"], metavar="N", type=whole_number(1, MOST_PROCESSES), help=text)


def backend(text: str) -> click.Option:
    """hasten's name for it, one of BACKENDS; None keeps the script's own. ``text``: its help."""
    return click.Option(["--backend"], type=OneOf(BACKENDS), help=text)


def file_option(name: str, text: str) -> click.Option:
    """A file's name; None if not given. ``text``: its help."""
    return click.Option([name], metavar="FILE", type=file_name, help=text, shell_complete=files)


def _techniques(name: str, text: str, metavar: str = "NAME") -> click.Option:
    """Repeatable: names of techniques, () if not given. ``text``: its help."""
    return click.Option(
        [name], metavar=metavar, multiple=True, help=text, shell_complete=_names_of_techniques
    )


PLAN = file_option("--plan", "a plan elsewhere than in .hasten/NAME/plan.toml")
TECHNIQUES = (
    _techniques(
        "--use",
        "train under this technique (repeatable); without --plan, under nothing else",
        metavar="NAME[:KEY=VALUE,...]",
    ),
    _techniques("--without", "take this technique out of the plan (repeatable)"),
)
ONLY = _techniques("--only", "try only this technique (repeatable; default: all that apply)")
JSON = file_option("--json", "also write the result as JSON; - is standard output")
ALLOW_WRITES = click.Option(
    ["--allow-writes"],
    is_flag=True,
    help="measure even if the script cannot be kept from writing its files (checkpoints, logs)",
)
WAIT = click.Option(
    ["--wait"],
    is_flag=True,
    help="if another hasten is measuring in this folder, wait for it to end instead of stopping",
)
QUIET = click.Option(["--quiet"], is_flag=True, help="no progress, and only the result")
