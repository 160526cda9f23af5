"""Techniques of tests and benchmarks in the catalogue, here and in workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from hasten.inside.techniques.base import Technique
from hasten.inside.techniques.catalog import CATALOG
from hasten.launch import one_process


@contextmanager
def known_to_workers(
    bootstrap: str, techniques: Mapping[str, type[Technique]], alone: bool = False
) -> Iterator[None]:
    """``techniques`` are in the catalogue, with the others or ``alone``. ``bootstrap``: the file that
    workers start with, which puts them into theirs.
    """
    catalogue, usual = dict(CATALOG), one_process.BOOTSTRAP
    if alone:
        CATALOG.clear()
    CATALOG.update(techniques)
    one_process.BOOTSTRAP = Path(bootstrap)
    try:
        yield
    finally:
        one_process.BOOTSTRAP = usual
        CATALOG.clear()
        CATALOG.update(catalogue)
