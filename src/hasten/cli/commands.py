"""The verbs as click reads them from the command line: their help, completion, and errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import NoReturn

import click
from click.shell_completion import CompletionItem

from .. import __version__
from ..report.console import Outlet
from ..saying import say
from . import demo, doctor, export, profile, report, run, scale, techniques, tune, verify
from .options import files

VERBS = (doctor, profile, tune, report, run, verify, export, scale, techniques, demo)
"""Each a module with NAME, HELP, PARAMETERS, perhaps EPILOG, and ``execute``, which is given what ``parse``
found, carries the verb out and returns the exit code. It raises HastenError for what a user can meet.
Where it leaves something when it is interrupted, ``kept``, given the same, says what.
"""
_COMPLETE = "_HASTEN_COMPLETE"  # set by the shell that asks for completions
_DESCRIPTION = """\
Find out why a PyTorch training script is slow on this machine, and train it faster, unchanged.

\b
hasten doctor                         what is this machine, and what slows training down?
hasten profile train.py --epochs 5    where does a step's time go?
hasten tune train.py --epochs 5       try what may help, measure it, write a plan
hasten report train.py                what did the last tune find?
hasten run train.py --epochs 5        train under the plan
hasten verify train.py --epochs 5     train with and without it to the end: is quality held?
hasten export train.py                the plan as ordinary PyTorch code
hasten scale --to 64 train.py         what would more machines bring?
hasten techniques                     what is there to try, and what of it applies here?

Everything after the script's name belongs to the script. hasten VERB --help lists a verb's own options.
"""
_SCRIPT = (
    "SCRIPT is the Python script or notebook that trains. Everything after it is passed on to it unchanged."
)


class Verb(click.Command):
    """Its errors name it, and nothing after the script's name is checked or completed as its own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx  # for a missing value, click does not say which command
            raise

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        if ctx.params.get("words"):  # the rest belongs to the script
            return files(ctx, self.params[0], incomplete)
        return super().shell_complete(ctx, incomplete)


class Verbs(click.Group):
    """All verbs: an unknown word is answered with similar ones."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        rest = super().parse_args(ctx, args)
        if not args and not ctx.resilient_parsing:
            ctx.fail("the following arguments are required: VERB")
        return rest

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.commands and not ctx.resilient_parsing:
            from difflib import get_close_matches

            choices = ", ".join(map(repr, self.commands))
            close = _did_you_mean(get_close_matches(args[0], self.commands))
            ctx.fail(f"argument VERB: invalid choice: {args[0]!r} (choose from {choices}){close}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs in the order of their use, each with its whole line."""
        with formatter.section("Verbs"):
            formatter.write_dl([(name, verb.short_help or "") for name, verb in self.commands.items()])


def parse(words: Sequence[str] | None = None) -> SimpleNamespace:
    """What was typed: ``verb``, the module that runs it; ``script`` or ``module``, and its own
    ``arguments``; and the verb's options by their names.

    Raises SystemExit after help, and with 2, after its message, for a word that makes no sense.
    """
    command = _command()
    if _COMPLETE in os.environ:
        command.main(prog_name="hasten")
    try:
        with command.make_context("hasten", list(sys.argv[1:] if words is None else words)) as context:
            found = command.invoke(context)
    except click.exceptions.Exit as end:
        raise SystemExit(end.exit_code) from None
    except click.UsageError as error:
        _refuse(error)
    assert isinstance(found, SimpleNamespace)
    return found


def _command() -> Verbs:
    version = _telling("--version", lambda context: f"hasten {__version__}", "show the version and exit")
    return Verbs(
        "hasten",
        help=_DESCRIPTION,
        params=[version, _help()],
        commands={verb.NAME: _verb(verb) for verb in VERBS},
        add_help_option=False,
        no_args_is_help=False,
        subcommand_metavar="VERB ...",
        context_settings={"max_content_width": 100},
    )


def _verb(verb: ModuleType) -> Verb:
    debug = click.Option(
        ["--debug"],
        is_flag=True,
        help="show hasten's own traceback with an error, and where the time of a tune's trials goes",
    )
    takes_script = any(isinstance(parameter, click.Argument) for parameter in verb.PARAMETERS)
    return Verb(
        verb.NAME,
        short_help=verb.HELP,
        help=f"{verb.HELP}\n\n{_SCRIPT}" if takes_script else verb.HELP,
        epilog=getattr(verb, "EPILOG", None),
        params=[*verb.PARAMETERS, debug, _help()],
        callback=partial(_typed, verb),
        add_help_option=False,
        context_settings={"allow_interspersed_args": False, "token_normalize_func": _with_dashes},
    )


def _with_dashes(word: str) -> str:
    """An option's name, without its dashes, as we call it: torchrun takes ``--nproc_per_node``, too."""
    return word.replace("_", "-")


def _typed(
    verb: ModuleType, words: tuple[str, ...] = (), as_module: bool = False, **options: object
) -> SimpleNamespace:
    name = words[0] if words else None
    script, module = (None, name) if as_module else (name, None)
    return SimpleNamespace(verb=verb, script=script, module=module, arguments=[*words[1:]], **options)


def _help() -> click.Option:
    return _telling("--help", click.Context.get_help, "show this help and exit", "-h")


def _telling(option: str, text: Callable[[click.Context], str], words: str, *short: str) -> click.Option:
    """An option that prints ``text`` and ends. Raises OutputLost if it cannot be written."""

    def tell(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
        if wanted and not context.resilient_parsing:
            Outlet(sys.stdout).write(text(context) + "\n")
            context.exit()

    return click.Option(
        [*short, option], is_flag=True, is_eager=True, expose_value=False, callback=tell, help=words
    )


def _refuse(error: click.UsageError) -> NoReturn:
    context = error.ctx
    path = context.command_path if context else "hasten"
    usage = f"{context.get_usage()}\n{path} --help lists the options.\n" if context else ""
    say(f"{usage}{path}: error: {_what_is_wrong(error)}", lines=True)
    raise SystemExit(2)


def _what_is_wrong(error: click.UsageError) -> str:
    if isinstance(error, click.NoSuchOption):
        own = " (the script's own come after its name)" if error.ctx and error.ctx.parent else ""
        return f"unrecognized arguments: {error.option_name}{_did_you_mean(error.possibilities) or own}"
    if isinstance(error, click.BadParameter) and error.param is not None:
        return f"argument {'/'.join(error.param.opts)}: {error.message}"
    return error.message


def _did_you_mean(close: Sequence[str] | None) -> str:
    return f". Did you mean {' or '.join(close)}?" if close else ""
