"""``hasten``: parse the command line, hand over to a verb, turn errors into one clear message and an exit
code.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from types import TracebackType

from .. import __version__
from ..errors import HastenError
from ..lost_writes import is_full, why_lost
from ..saying import say
from . import demo, doctor, interruption, modules, profile, run, streams, techniques, tune, verify
from .common import VerbParser, require_folder
from .values import check_json_target

_VERBS = (doctor, profile, tune, run, verify, techniques, demo)
_INTERRUPTED = 130
_DESCRIPTION = """\
Find out why a PyTorch training script is slow on this machine, and train it faster, unchanged.

  hasten doctor                         what is this machine, and what hinders training on it?
  hasten profile train.py --epochs 5    where does a step's time go?
  hasten tune train.py --epochs 5       try what may help, measure it, write a plan
  hasten run train.py --epochs 5        train under the plan
  hasten verify train.py --epochs 5     train with and without it to the end: is quality held?
  hasten techniques                     what is there to try, and what of it applies here?

What follows the script's name belongs to the script. hasten VERB --help lists a verb's own options.
"""


def build_parser() -> argparse.ArgumentParser:
    parser = VerbParser(
        prog="hasten", description=_DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"hasten {__version__}")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True, parser_class=VerbParser)
    for verb in _VERBS:
        epilog = getattr(verb, "EPILOG", None)
        sub = verbs.add_parser(verb.NAME, help=verb.HELP, description=verb.HELP, epilog=epilog)
        sub.add_argument("--debug", action="store_true", help="show hasten's own traceback with an error")
        verb.add_arguments(sub)
        sub.set_defaults(verb=verb)
    return parser


def main(argv: list[str] | None = None) -> int:
    """The exit code. Ctrl-C ends with 130, after every worker is gone."""
    interruption.heed()
    modules.users_last()
    sys.excepthook = _report
    streams.prepare()
    try:
        return _carried_out(argv)
    finally:
        streams.let_go()


def _carried_out(argv: list[str] | None) -> int:
    arguments = argparse.Namespace(debug=False, verb=None)
    try:
        _parse(argv, arguments)
        require_folder()
        check_json_target(getattr(arguments, "json", None), getattr(arguments, "script", None))
        code = int(arguments.verb.execute(arguments))
        streams.finish()
        return code
    except KeyboardInterrupt as interrupted:
        what = str(interrupted) or "interrupted"
        kept = "; finished trials are in the journal" if arguments.verb is tune else ""
        with interruption.not_again():
            say(f"hasten: {what}{kept}")
        return _INTERRUPTED
    except HastenError as error:
        if arguments.debug:
            raise
        say(f"hasten: {error}", lines=error.has_lines)
        return error.exit_code
    except BrokenPipeError:  # whoever read our output has gone, and nothing is left to say
        return 1
    except OSError as error:
        if not is_full(error) or arguments.debug:
            raise
        where = f" ({error.filename})" if error.filename else ""
        say(f"hasten: {why_lost(error, str(error.filename))}{where}: make room and run again")
        return 1


def _parse(argv: list[str] | None, arguments: argparse.Namespace) -> None:
    try:
        build_parser().parse_args(argv, arguments)
    except SystemExit:  # after --help and --version, or of an error
        streams.finish()
        raise


def _report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """An error of our own, or with --debug any: as Python shows it, names and texts of strangers made
    visible.
    """
    say("".join(traceback.format_exception(kind, error, trace)).rstrip("\n"), lines=True)


if __name__ == "__main__":
    sys.exit(main())
