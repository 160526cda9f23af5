"""Where a class comes from, for classes of every kind."""

from __future__ import annotations


def module_of(kind: type) -> str:
    """The module that made the class; "" if it does not tell. Metaclasses that are compiled, as Cython makes
    them from 3.2 on, may hold a descriptor in that place, which is for the classes that they make.
    """
    name = kind.__module__
    return name if isinstance(name, str) else ""
