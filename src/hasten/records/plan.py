"""A plan: techniques with their settings. The baseline is the empty plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Value = str | int | float | bool
Settings = Mapping[str, Value]


@dataclass(frozen=True)
class Plan:
    """Techniques by name, in the order they were adopted, each with its settings."""

    techniques: Mapping[str, Settings] = field(default_factory=dict)

    def adding(self, name: str, settings: Settings) -> Plan:
        """This plan with one more technique, or with other settings for it."""
        return Plan({**self.techniques, name: dict(settings)})

    def without(self, name: str) -> Plan:
        """This plan without one technique."""
        return Plan({key: value for key, value in self.techniques.items() if key != name})

    def only(self, names: frozenset[str] | set[str]) -> Plan:
        """The part of this plan whose techniques are among ``names``."""
        return Plan({key: value for key, value in self.techniques.items() if key in names})

    def holds(self, other: Plan) -> bool:
        """Whether all of ``other`` is in it, with the same settings."""
        return all(self.techniques.get(name) == settings for name, settings in other.techniques.items())

    @property
    def key(self) -> str:
        """A canonical text, equal for equal plans whatever the order of adoption. Uses no modules: it is
        needed in the script's process, which may have replaced them.
        """
        return repr([(name, sorted(how.items())) for name, how in sorted(self.techniques.items())])

    @property
    def label(self) -> str:
        """How reports name the plan."""
        return " + ".join(self.techniques) if self.techniques else "baseline"

    def __bool__(self) -> bool:
        return bool(self.techniques)

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and self.key == other.key

    def to_json(self) -> dict[str, dict[str, Value]]:
        """Settings by technique, in the order of adoption."""
        return {name: dict(settings) for name, settings in self.techniques.items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Settings]) -> Plan:
        """What ``to_json`` made. Does not check that such techniques and settings exist."""
        return cls({name: dict(settings) for name, settings in data.items()})


BASELINE = Plan()
