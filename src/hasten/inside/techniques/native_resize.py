"""Resize pictures with torch's kernel for bytes instead of Pillow's.

What it does: if a Pillow picture is resized with the bilinear or bicubic filter, torch's antialiased
interpolation of bytes does it: for example in torchvision's ``Resize`` and ``RandomResizedCrop``, in the
process that trains and in workers forked from it. Torch's kernel computes like Pillow's, with weights of 16
bits instead of 22: a byte may differ by 1 of 255, rarely by 2. Modes other than L and RGB, more than a
million pixels, and other ways to call it go to Pillow as usual. The first pictures of each process are
resized both ways and compared, and one in 500 later: if a byte differs by more than 2 of 255, Pillow is used
again.

When it helps: pictures are large and resizing is much of the work for a sample, on processors with vector
instructions for it (AVX2). When it hurts: pictures are small, so that passing them on costs more; or Pillow
itself was built with such instructions. If dataset_in_ram can keep all samples, each is resized only once.

Sources: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.interpolate.html,
https://pillow.readthedocs.io/en/stable/reference/Image.html#PIL.Image.Image.resize
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from ...records.facts import Facts
from ...records.machine import Machine
from ...records.plan import Settings
from ...records.trial import Proof
from ..samples.resizing import LIMIT, Resizing
from ..seams import Call, when_it_comes
from ..training import NotApplicable, Training
from .base import Technique
from .dataset_in_ram import DatasetInRam
from .support.input_waits import hardly_waits

_VECTORS = "avx2"


class NativeResize(Technique):
    name = "native_resize"
    summary = "pictures are resized by torch's kernel for bytes instead of Pillow's"
    layer = "data"
    risk = "close"
    scope = "process"
    restarts = True
    phases = ("data",)

    def __init__(self) -> None:
        self._resizing: Resizing | None = None
        self._before = (0, 0, 0)

    @classmethod
    def refuse_machine(cls, machine: Machine) -> list[str]:
        if machine.system != "Linux":
            return [f"it is not made for {machine.system}"]
        if _VECTORS not in machine.cpu_flags:
            return ["the processor lacks the vector instructions (AVX2) that torch's kernel is written for"]
        return []

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        reasons, loaders = cls.refuse_machine(facts.machine), facts.observation.training_loaders
        if not loaders:
            return [*reasons, "the training reads from no DataLoader"]
        if not any(loader.resizes for loader in loaders):
            names = ", ".join(dict.fromkeys(loader.dataset for loader in loaders))
            reasons.append(f"no transform of {names} resizes pictures")
        reasons += hardly_waits(facts)
        if not reasons and all(one.random == "" for one in loaders) and not DatasetInRam.refuse(facts):
            reasons.append("dataset_in_ram keeps its samples, which are the same each time")
        return reasons

    def start(self, training: Training, settings: Settings) -> None:
        def around(images: ModuleType, original: Call) -> Call:
            resizing = self._resizing = Resizing(training.torch, images, original)

            @functools.wraps(original)
            def resize(picture: Any, *args: Any, **kwargs: Any) -> Any:
                return resizing(picture, *args, **kwargs)

            return resize

        def came(images: ModuleType) -> None:
            training.seams.replace(images.Image, "resize", functools.partial(around, images))

        when_it_comes(training.seams, "PIL.Image", came)

    def install(self, training: Training, settings: Settings) -> None:
        if self._resizing is None:
            raise NotApplicable("the script has not imported Pillow")
        self._before = self._resizing.counts.total()

    def proof(self, training: Training) -> Proof:
        """Counts the pictures that torch resized, in all processes, and those of them that were compared with
        Pillow's. Where one differed by too much, it does not count.
        """
        if self._resizing is None:
            return Proof(self.name, False, "no picture was resized")
        now = self._resizing.counts.total()
        resized, apart, compared = (a - b for a, b in zip(now, self._before, strict=True))
        given_up = self._resizing.counts.given_up
        evidence = [
            f"{resized} pictures were resized by torch",
            f"of {compared} that were compared with Pillow's, {apart} differed, by at most {LIMIT} of 255",
        ]
        if given_up:
            evidence = [evidence[0], given_up]
        return Proof(self.name, resized > 0 and not given_up, "; ".join(evidence))

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        return (
            "transform = v2.Compose([\n"
            "    v2.ToImage(),  # resizes tensors of bytes, by torch's kernel\n"
            "    v2.Resize(256, antialias=True),\n"
            "    ...\n"
            "])"
        )
