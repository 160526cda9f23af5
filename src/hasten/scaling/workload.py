"""From what was observed of a training to what is scaled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..errors import Refusal
from ..records.observation import Observation
from ..records.phases import phase_share
from ..records.scaling import Workload
from .step_cost import fitted

_DTYPE_BYTES = {"float64": 8, "bfloat16": 2, "float16": 2}  # others: 4


def workload_of(observation: Observation, runs: Mapping[int, Sequence[Sequence[float]]]) -> Workload:
    """The workload from what was observed. ``runs``: as ``fitted`` takes them. Raises Refusal if it is not
    known on how many samples a step trains.
    """
    if not any(runs.values()):
        raise Refusal(
            "hasten scale needs a training whose batches come from a DataLoader: without one it does not "
            "know how many samples a step trains on"
        )
    parameters = sum(
        root.trained if root.trained is not None else root.parameters for root in observation.roots
    )
    if not parameters:
        raise Refusal("no trained parameters were seen, so it is not known what machines would exchange")
    dtypes = {dtype for root in observation.roots for dtype in root.dtypes}
    size = max((_DTYPE_BYTES.get(dtype, 4) for dtype in dtypes), default=4)
    epochs = [loader.samples for loader in observation.training_loaders if loader.samples is not None]
    return Workload(
        step=fitted(runs, phase_share(observation, "backward")),
        batch=max(runs),
        gradient_bytes=parameters * size,
        epoch_samples=max(epochs, default=None),
        backend="nccl"
        if any("cuda" in device for root in observation.roots for device in root.devices)
        else "gloo",
    )
