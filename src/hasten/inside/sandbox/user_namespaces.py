"""Why ordinary users get no user namespace on this machine, if its settings say so.

Sources: the manual page user_namespaces(7); the kernel's Documentation/admin-guide/sysctl/user.rst; Debian's
and Ubuntu's own settings, by their documentation of unprivileged user namespaces.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

_SETTINGS = (  # file below /proc/sys, the value that switches them off, and the message
    ("user/max_user_namespaces", 0, "user namespaces are switched off (user.max_user_namespaces)"),
    (
        "kernel/unprivileged_userns_clone",
        0,
        "user namespaces are switched off for users (kernel.unprivileged_userns_clone)",
    ),
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        1,
        "user namespaces are kept from users by AppArmor (kernel.apparmor_restrict_unprivileged_userns)",
    ),
)


def switched_off(settings: Path = Path("/proc/sys")) -> str:
    """The reason in one sentence, or "" if no setting says so."""
    for name, off, words in _SETTINGS:
        with suppress(OSError, ValueError):
            if int((settings / name).read_text()) == off:
                return words
    return ""
