"""What to tell users whose script failed because a trial may not write: see inside/sandbox/landlock.py."""

from __future__ import annotations

import re

# Texts of EACCES and EXDEV: in Python, by strerror(3) in C++, in SQLite, in torch 2.9's torch.save.
_SIGNS = re.compile(
    "permission denied|errno 13|invalid cross-device link|readonly database|unable to open database file"
    "|RuntimeError: File .* cannot be opened",
    re.IGNORECASE,
)
_NAMED = re.compile(
    r"""(?:Permission\ denied|cross-device\ link):\ (?P<python>b?['"].*)  # a rename names two
    |\ at\ path\ "(?P<rust>.*)"  # safetensors
    |RuntimeError:\ File\ (?P<torch>.*)\ cannot\ be\ opened
    |name\ =\ '(?P<hdf5>[^']*)',\ errno\ =\ 13""",
    re.VERBOSE,
)
ADVICE = "run again with --allow-writes if the script may write while it is measured"


def is_denied_write(detail: str) -> bool:
    """Whether the error with this text and traceback may come from a denied write."""
    return _SIGNS.search(detail) is not None


def denied_file(detail: str) -> str:
    """The file that could not be written, quoted, or "a file" if the error does not name it."""
    matches = list(_NAMED.finditer(detail))
    if not matches:
        return "a file"
    name = matches[-1][matches[-1].lastgroup or 0]
    return name if matches[-1].lastgroup == "python" else repr(name)


def denied_words(detail: str, why: str) -> str:
    """Several sentences: what was denied, ``why`` no overlay can redirect such writes, and what to do."""
    return (
        f"Writing {denied_file(detail)} was denied: a trial may only change temporary files (in "
        "TMPDIR) and caches, and this machine cannot redirect other writes "
        f"({why}). R{ADVICE[1:]}; or measure where overlays can be mounted, by root or in user namespaces."
    )
