"""The techniques, in the order in which reports list them. Each is imported when it is first asked for: a run
needs those of its plan alone, and all of them together with what they need take longer than Python's start.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module

from ...records.plan import Plan
from .base import Technique

_ALL = (
    "dataset_in_ram",
    "batched_fetch",
    "sample_store",
    "batched_to_tensor",
    "native_resize",
    "loader_workers",
    "length_grouping",
    "persistent_workers",
    "evaluation_in_ram",
    "pin_memory",
    "uint8_transfer",
    "device_prefetch",
    "debugging_off",
    "pad_trim",
    "matmul_convolutions",
    "bf16",
    "fp16",
    "fp8",
    "tf32",
    "matmul_precision",
    "compile",
    "channels_last",
    "fast_pooling",
    "drop_bias",
    "cudnn_benchmark",
    "graph_free_evaluation",
    "evaluation_bf16",
    "fused_optimizer",
    "merge_groups",
    "zero_grad_to_none",
    "optimizer_in_backward",
    "checkpointing",
    "async_save",
    "malloc",
    "threads",
    "openmp_runtime",
    "affinity",
    "huge_pages",
    "interop_threads",
    "denormals",
    "gc_control",
    "lazy_dynamo",
    "frozen_imports",
    "intel_extension",
    "processes",
    "batch_size",
    "prune",
)


class Catalog(MutableMapping[str, type[Technique]]):
    """By name. A technique's module is named like it, and its class as well, without underscores."""

    def __init__(self) -> None:
        self._found: dict[str, type[Technique] | None] = dict.fromkeys(_ALL)  # None: not imported yet

    def __getitem__(self, name: str) -> type[Technique]:
        found = self._found[name]
        if found is None:
            module = import_module(f"{__package__}.{name}")
            found = self._found[name] = getattr(module, "".join(map(str.capitalize, name.split("_"))))
        return found

    def __setitem__(self, name: str, technique: type[Technique]) -> None:
        self._found[name] = technique

    def __delitem__(self, name: str) -> None:
        del self._found[name]

    def __contains__(self, name: object) -> bool:
        return name in self._found  # the mixin's own asks for the technique, and so imports it

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


CATALOG = Catalog()


def changing(plan: Plan) -> Plan:
    """The part of a plan that changes the training itself."""
    return plan.only({name for name, how in plan.techniques.items() if CATALOG[name].changes_training(how)})


def starts_after(plan: Plan) -> int:
    """Steps until all of the plan is in force."""
    return max(
        (CATALOG[name].starts_after(settings) for name, settings in plan.techniques.items()), default=0
    )


def came_too_late(why_not: str) -> frozenset[str]:
    """The technique that refused in a training that had begun, as ``why_not`` says, if it might not refuse at
    its first step.
    """
    name, _, _ = why_not.partition(":")
    return frozenset({name} if name in CATALOG and CATALOG[name].may_come_too_late else ())


def slow_to_set_up(plan: Plan) -> frozenset[str]:
    """The plan's techniques that are slow to set up; names that the catalogue does not know are left out."""
    return frozenset(name for name in plan.techniques if name in CATALOG and CATALOG[name].slow_to_set_up)
