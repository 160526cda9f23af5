"""The blocks of docs/machines.md, each with what is said of it in the comment before it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "machines.md"
_BLOCK = re.compile(r"(?:<!-- (?P<how>[^\n]*) -->\n)?```bash\n(?P<text>.*?)```", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """``how``: "render", "run: NAME", "by test_ray"; "" where nothing is said."""

    how: str
    text: str

    @property
    def name(self) -> str:
        return self.how.removeprefix("run: ")


def blocks() -> list[Block]:
    found = _BLOCK.finditer(PAGE.read_text())
    return [Block(block["how"] or "", block["text"]) for block in found]
