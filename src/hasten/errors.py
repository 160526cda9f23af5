"""The exceptions a user can meet.

HastenError                 one clear line: what was asked, what was found, what to do next
├── UsageError              the command line or a file given on it is wrong      exit 2
│   ├── PlanError           a plan file is broken: which key, what was expected  exit 2
│   └── UnsafeFile          a link, a pipe, another user's: it is not used      exit 2
├── ScriptError             the script itself failed                             exit 1
├── OutputLost              a result could not be written where it belongs       exit 1
├── Refusal                 hasten will not measure this script, and says why    exit 3
│   └── InUse               another measurement runs here: which, since when     exit 3
└── WorkerError             a worker crashed, hung or closed the connection      exit 4

hasten tune raises nothing if accuracy could not be checked: it writes no plan and exits with 6.
hasten verify raises nothing for its verdict: it exits with 5 (lost), 6 (cannot tell) or 7 (a run failed).
"""

from __future__ import annotations


class HastenError(Exception):
    """Base of every error shown to a user as one message without a traceback."""

    exit_code = 1
    has_lines = False  # the message has several: a traceback is part of it


class UsageError(HastenError):
    """The command cannot be executed as typed."""

    exit_code = 2


class PlanError(UsageError):
    """A plan file could not be read: the message names the key and what was expected."""


class UnsafeFile(UsageError):
    """A file or folder that hasten will neither read nor write: the message says which, and what it is."""


class ScriptError(HastenError):
    """The user's script raised or exited with an error; its traceback is part of the message."""

    exit_code = 1
    has_lines = True


class OutputLost(HastenError):
    """A result could not be written: to standard output, or the plan to its file."""

    exit_code = 1


class Refusal(HastenError):
    """The script cannot be measured honestly; the message says why and what would help."""

    exit_code = 3


class InUse(Refusal):
    """Another hasten is measuring in this folder; the message says which one."""


class WorkerError(HastenError):
    """A worker process ended in a way that no script does: a signal, a hang, a broken pipe."""

    exit_code = 4
    has_lines = True
