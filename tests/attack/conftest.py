"""What commands that are attacked need, as those of ``tests/cli``."""

from ..cli.conftest import interruptible, project

__all__ = ["interruptible", "project"]
