"""What an attacker, an accident or a stranger's script does to hasten, and what hasten does then.

Cases stand beside what they attack, marked ``@pytest.mark.attack(area)`` with one of ``AREAS``; those that
have no other room stand here. ``python -m tests.attack`` runs all of them and counts.
"""

from __future__ import annotations

AREAS = {
    "truth": "nothing is certified that was not measured",
    "files": "nothing of the user's is touched, and nothing is left",
    "intruders": "what others planted does no harm",
    "together": "two at once, and what is pulled away from under a run",
    "arguments": "bad input is refused before anything is measured",
    "messages": "what went wrong is said: what, to what, and what to do",
    "signals": "a signal at any moment leaves nothing behind",
    "processors": "the same answers on every processor",
}
