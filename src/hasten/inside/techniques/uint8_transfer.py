"""Send pictures to the GPU as bytes, and convert them to floats there.

What it does: if a data set's transforms end with those that turn a picture into a tensor and normalize it,
the loader's worker processes collate bytes, a quarter of the size of floats; these are passed on, pinned and
copied. The script gets a tensor that claims to be the batch of floats in main memory. If the script sends it
to the GPU, bytes are copied, and a table converts them to floats there: it has the result of the script's own
transforms for each byte of each channel. If the script does anything else with it, the floats are first made
in main memory, from the same table. Both are the same to the last bit; the first batch that is sent is
compared.

When it helps: pictures are large and many, so that passing batches on and copying them takes as long as
training on them. When it hurts: a script computes with its batches in main memory before it sends them, with
a kernel that does not ask torch what a tensor holds.

Sources: https://docs.pytorch.org/docs/stable/notes/extending.html#extending-torch-python-api,
https://docs.pytorch.org/docs/stable/generated/torch.index_select.html
"""

from __future__ import annotations

import os

from ...records.facts import Facts
from ...records.machine import Machine
from ...records.plan import Settings
from ...records.trial import Proof
from ..internals.loaders import NEXT_DATA, iterators_that_fetch
from ..internals.other_functions import map_leaves
from ..samples.byte_batches import ByteBatch, bytes_of
from ..seams import Call
from ..training import NotApplicable, Training
from .base import Technique, conflicting
from .support.device_copies import needs_cuda
from .support.late_loading import APART, LateLoading, refused_loaders, refused_machine
from .support.sent_bytes import SentBytes


class Uint8Transfer(Technique):
    name = "uint8_transfer"
    summary = "pictures go to the GPU as bytes, and become floats there"
    layer = "data"
    risk = "exact"
    scope = "process"
    conflicts = conflicting(
        **APART,
        batched_to_tensor="it makes floats of pictures where they are read",
        device_prefetch="it copies floats before the script asks for them",
        processes="ranks take their part of the floats",
    )
    device = "cuda"

    def __init__(self) -> None:
        self._loading: LateLoading | None = None
        self._sent: SentBytes | None = None

    @classmethod
    def refuse_machine(cls, machine: Machine) -> list[str]:
        no_gpu = [] if machine.accelerators else ["there is no GPU to send pictures to"]
        return [*refused_machine(machine), *no_gpu]

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        others = needs_cuda(facts) or refused_loaders(facts.observation.training_loaders)
        return [*cls.refuse_machine(facts.machine), *others]

    def start(self, training: Training, settings: Settings) -> None:
        torch, home = training.torch, os.getpid()
        if not torch.cuda.is_available():
            raise NotApplicable("torch finds no CUDA device")
        loading = self._loading = LateLoading(training, self.name, bytes_of)
        sent = self._sent = SentBytes(torch, self.device, loading.sets.counts)

        def change(leaf: object) -> object:
            return sent.tensor(leaf) if isinstance(leaf, ByteBatch) else leaf

        def fetching(original: Call) -> Call:
            def _next_data(iterator: object) -> object:
                batch = original(iterator)
                return map_leaves(torch, change, batch) if os.getpid() == home else batch

            return _next_data

        for kind in iterators_that_fetch():
            training.seams.replace(kind, NEXT_DATA, fetching)

    def install(self, training: Training, settings: Settings) -> None:
        assert self._loading is not None
        self._loading.begin()

    def proof(self, training: Training) -> Proof:
        """Counts the batches of pictures that were sent as bytes, and those converted to floats in main
        memory. If floats on the device differed from those, it does not count.
        """
        assert self._loading is not None
        assert self._sent is not None
        sent, made = self._sent.sent, self._sent.made
        evidence = [
            f"{sent} batches of pictures were sent as bytes, {made} became floats before",
            *self._loading.remarks,
        ]
        effective = self._sent.sent > 0 and not self._loading.sets.counts.given_up
        return Proof(self.name, effective, "; ".join(evidence))

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        return (
            "dataset = ImageFolder(folder, v2.Compose([..., v2.PILToTensor()]))  # bytes\n"
            "\n"
            "pictures = pictures.to(device, non_blocking=True)\n"
            "pictures = pictures.float().div_(255).sub_(mean).div_(std)  # on the device"
        )
