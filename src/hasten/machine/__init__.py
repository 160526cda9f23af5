"""What this machine is: read from the kernel's files, without torch and without starting anything heavy.

Every function that reads files takes the ``root`` they lie under, so a recorded machine can be read as well.
"""

from hasten.machine.facts import this_machine

__all__ = ["this_machine"]
