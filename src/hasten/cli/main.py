"""``hasten``: parse the command line, call a verb, turn errors into one clear message and an exit
code.
"""

from __future__ import annotations

import sys
import traceback
from types import SimpleNamespace, TracebackType

from ..errors import HastenError
from ..lost_writes import is_full, why_lost
from ..saying import say
from . import interruption, search_path, standard_streams
from .common import require_folder

_INTERRUPTED = 130


def main(argv: list[str] | None = None) -> int:
    """The exit code. Ctrl-C ends with 130, after every worker is gone."""
    interruption.heed()
    search_path.users_last()
    sys.excepthook = _report
    standard_streams.prepare()
    try:
        return _carried_out(argv)
    finally:
        standard_streams.let_go()


def _carried_out(argv: list[str] | None) -> int:
    arguments = SimpleNamespace(debug=False, verb=None)
    try:
        arguments = _parse(argv)
        require_folder()
        _check_json_target(arguments)
        code = int(arguments.verb.execute(arguments))
        standard_streams.finish()
        return code
    except KeyboardInterrupt as interrupted:
        with interruption.not_again():
            kept = _kept(arguments)
            say(f"hasten: {str(interrupted) or 'interrupted'}{kept and '; '}{kept}")
        return _INTERRUPTED
    except interruption.Ended as ended:
        with interruption.not_again():
            kept = _kept(arguments)
            if kept:
                say(f"hasten: ended by {ended.signal_name}; {kept}")
        raise
    except HastenError as error:
        if arguments.debug:
            raise
        say(f"hasten: {error}", lines=error.has_lines)
        return error.exit_code
    except BrokenPipeError:  # the reader of our output is gone
        return 1
    except OSError as error:
        if not is_full(error) or arguments.debug:
            raise
        where = f" ({error.filename})" if error.filename else ""
        say(f"hasten: {why_lost(error, str(error.filename))}{where}: make room and run again")
        return 1


def _kept(arguments: SimpleNamespace) -> str:
    """What the interrupted verb leaves, and how to continue; "" for nothing."""
    told = getattr(arguments.verb, "kept", None)
    return str(told(arguments)) if told is not None else ""


def _parse(argv: list[str] | None) -> SimpleNamespace:
    from .commands import parse  # only after the user's modules are last: click must not be one of theirs

    try:
        return parse(argv)
    except SystemExit:  # after --help and --version, or for an error
        standard_streams.finish()
        raise


def _check_json_target(arguments: SimpleNamespace) -> None:
    from .values import check_json_target

    check_json_target(getattr(arguments, "json", None), arguments.script)


def _report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """An error of our own, or with --debug any, as Python shows it, with control characters in names made
    visible.
    """
    say("".join(traceback.format_exception(kind, error, trace)).rstrip("\n"), lines=True)


if __name__ == "__main__":
    sys.exit(main())
