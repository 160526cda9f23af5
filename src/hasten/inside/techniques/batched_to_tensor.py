"""Turn pictures into tensors, and normalize them, a batch at a time instead of one by one.

What it does: it applies if a data set's transforms end with those that turn a picture into a tensor:
torchvision's ``ToTensor``, ``ToDtype`` and ``Normalize``, or a script's own with these names. Then the
loader's batch is collated from the pictures' bytes, and becomes floats at once: one pass to convert, and one
for each division and subtraction, in place. Earlier transforms, including random ones, are called as usual.
It works in loaders' worker processes and without. What is computed is found by trying every byte on the
script's own transforms, and must be the same to the last bit. So must whole batches of some samples, their
strides and the RNG states, before the first is used; and a sample now and then.

When it helps: pictures are small, so that Python's work on each costs more than the arithmetic; or they are
large, because it saves float copies of each. It helps if augmentation is random or a data set is larger than
memory, which dataset_in_ram cannot change. When it hurts: rarely, if a data set does something with the
tensor other than pass it on. If that meets our bytes, the batch is made again as without us, and so are all
later ones.

Sources: https://docs.pytorch.org/vision/stable/transforms.html,
https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.default_collate
"""

from __future__ import annotations

from ...records.facts import Facts
from ...records.machine import Machine
from ...records.plan import Settings
from ...records.trial import Proof
from ..samples.late_pictures import floats_of
from ..training import Training
from .base import Technique
from .support.input_waits import hardly_waits
from .support.late_loading import APART, LateLoading, refused_loaders, refused_machine


class BatchedToTensor(Technique):
    name = "batched_to_tensor"
    summary = "pictures become tensors, and are normalized, a batch at a time"
    layer = "data"
    risk = "exact"
    scope = "process"
    restarts = True
    phases = ("data",)
    conflicts = APART

    def __init__(self) -> None:
        self._loading: LateLoading | None = None

    @classmethod
    def refuse_machine(cls, machine: Machine) -> list[str]:
        return refused_machine(machine)

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        others = refused_loaders(facts.observation.training_loaders)
        return [*cls.refuse_machine(facts.machine), *hardly_waits(facts), *others]

    def start(self, training: Training, settings: Settings) -> None:
        self._loading = LateLoading(training, self.name, floats_of)

    def install(self, training: Training, settings: Settings) -> None:
        assert self._loading is not None
        self._loading.begin()

    def proof(self, training: Training) -> Proof:
        """Counts the samples whose batch was converted at once, in all processes; those made as without it;
        and those made both ways and compared. If a batch could not be made, or a sample differed, it does not
        count.
        """
        assert self._loading is not None
        late, left, checked = self._loading.counted
        evidence = [
            f"{late} samples became tensors with their batch, {left} by themselves; {checked} were compared",
            *self._loading.remarks,
        ]
        return Proof(self.name, late > 0 and not self._loading.sets.counts.given_up, "; ".join(evidence))

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        return (
            "def collate(samples):  # of a data set without ToTensor and Normalize\n"
            "    pictures, labels = zip(*samples)\n"
            "    pixels = torch.from_numpy(numpy.stack([numpy.asarray(picture) for picture in pictures]))\n"
            "    floats = pixels.permute(0, 3, 1, 2).float().div_(255).sub_(mean).div_(std)\n"
            "    return floats, torch.tensor(labels)\n"
            "\n"
            "loader = DataLoader(dataset, ..., collate_fn=collate)"
        )
