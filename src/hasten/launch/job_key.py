"""The secret by which the processes of one job know each other where they meet beyond one machine."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ..errors import UsageError
from ..inside.process import own_files

VARIABLE = "HASTEN_JOB_TOKEN"
_LEAST_CHARACTERS = 16
_MOST_BYTES = 256


def job_key(environment: Mapping[str, str], job: str) -> bytes:
    """The key, from the token that the user has set on all hosts, else from this user's own file, which hosts
    with a common home share. ``job``: what distinguishes jobs of one user. Raises UsageError.
    """
    token = environment.get(VARIABLE, "")
    if token and len(token) < _LEAST_CHARACTERS:
        raise UsageError(
            f"{VARIABLE} has {len(token)} characters, which can be guessed: take {_LEAST_CHARACTERS} or more "
            "(openssl rand -hex 16), the same on all hosts"
        )
    secret = token.encode() or _of_this_user(environment)
    return hashlib.blake2b(job.encode(), key=hashlib.sha256(secret).digest(), digest_size=32).digest()


def _of_this_user(environment: Mapping[str, str]) -> bytes:
    """Made at its first use; readable by this user alone."""
    cache = environment.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    path = Path(cache, "hasten", "hosts.key")
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        own_files.close_to_others(path.parent)
        _make(path)
    if not own_files.is_ours(path):
        raise UsageError(
            f"hosts know each other by a secret in {path}, which cannot be created, or is open to others: "
            f"set {VARIABLE} to the same secret on all hosts (openssl rand -hex 16)"
        )
    return path.read_bytes()[:_MOST_BYTES]


def _make(path: Path) -> None:
    """Whole or not at all, and once, whoever else makes it at the same time."""
    if path.exists():
        return
    drawn = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(drawn, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_hex(32).encode())
        with suppress(FileExistsError):
            os.link(drawn, path)
    finally:
        drawn.unlink()
