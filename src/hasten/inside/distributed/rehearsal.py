"""A rehearsal of the first training steps: one process first, then the ranks, on the same batches.

The ranks compare what they compute with what the one process found: first backward passes by gradient, steps
by their course. Dropout is off, noise aligned and batch norm shared; all else must be equal.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import torch

from ...records.codec import from_json, to_json
from ...records.ranks import Findings
from ..guarding.digests import feed
from ..guarding.doubled import double_all, doubled
from ..internals import loaders, modules
from ..job import COURSE, DIFFERENT, IN_FLOAT64, SEEN, WITH_SUM, Ranks
from ..observing.hooks import Hooks
from ..observing.observer import Observer
from ..process import own_files
from ..random_state import fingerprint
from ..samples.fetching import samples_of
from ..samples.loader_override import LoaderOverride, workers
from ..seams import Args, Call, Kwargs
from ..training import Training
from .agreement import Agreement, plain
from .aligned import AlignedDraws, quiet_recurrent, without_dropout
from .averaging import OutOfStep
from .parting import Fail
from .reference_course import ReferenceCourse
from .short_epochs import ShortEpochs
from .slicing import key_of, slice_of
from .this_rank import ThisRank
from .trained_loaders import Made, TrainedLoaders

_MOST_PASSES = 8  # backward passes that are compared
_FILE = "one-process.pt"
_NAME = "rehearsal"


class Rehearsal(ThisRank):
    """A rank, or the single process that runs before them as a world of one. The training ends with it."""

    def __init__(
        self,
        training: Training,
        hooks: Hooks,
        observer: Observer,
        ranks: Ranks,
        folder: str,
        fail: Fail,
    ) -> None:
        self._fallen_out = ""  # why the ranks' gradients could not be added up
        self._different = ""  # the first thing in which they differ from one process
        self._file = Path(folder, _FILE)
        self._alone = ranks.world_size == 1
        self._expected: dict[str, Any] = {} if self._alone else own_files.load(torch, self._file)
        findings = Findings() if self._alone else from_json(Findings, self._expected["findings"])
        if Path(folder, WITH_SUM).exists():
            findings = replace(findings, loss="sum")
        super().__init__(training, hooks, observer, ranks, findings, fail)
        self._loaders = TrainedLoaders()
        self._recorded: list[dict[int, torch.Tensor]] = []  # gradients by parameter
        self._agreements: list[Agreement] = []
        self._made: list[Made] = []
        self._augments = False
        self._cutting: loaders.LoaderIterator | None = None  # whose batch is made and cut
        self._draws = AlignedDraws(lambda: self.slicer.latest)
        self._doubled = Path(folder, IN_FLOAT64).exists()
        self._course = ReferenceCourse(training, Path(folder, COURSE), self._alone, self._tell_difference)
        self._course.precision = "float64" if self._doubled else ""
        self._entered, self._epochs = False, ShortEpochs(folder)

    def install(self) -> None:
        if self._doubled:
            double_all(self.training.seams)
        super().install()
        self._course.install()
        training = self.training
        training.fetch_providers[_NAME] = self._samples
        LoaderOverride(training, lambda loader: workers(0, 2, False, None) if loader.num_workers else None)
        without_dropout(training.seams)
        if not self._alone and not self.ranks.sync_batch_norm:
            self.share_batch_norm()

    # ---- the data: every rank draws all of it, and keeps a part
    def _around_order(self, original: Call) -> Call:
        def _next_index(iterator: loaders.LoaderIterator) -> object:
            cuts = self._cuts(iterator)
            if cuts and self._epochs.over(iterator, self.steps):
                raise StopIteration
            try:
                indices = original(iterator)
            except StopIteration:
                if cuts and self._alone:
                    self._epochs.ended()
                raise
            if cuts:
                self.slicer.cut(iterator, indices)
            return indices

        return _next_index

    def _around_fetch(self, original: Call) -> Call:
        def _next_data(iterator: loaders.LoaderIterator) -> object:
            self._cutting, self._draws.paused = iterator if self._cuts(iterator) else None, True
            try:
                data = original(iterator)
                return doubled(data) if self._doubled else data
            finally:
                self._cutting, self._draws.paused = None, False

        return _next_data

    def _samples(self, dataset: Any, indices: Sequence[Any], collate: Call) -> list[object] | None:
        if self._cutting is None:
            return None
        before = fingerprint(torch)
        samples = samples_of(dataset, indices)
        self._augments |= fingerprint(torch) != before
        digest = hashlib.blake2b(digest_size=12)
        feed(digest, samples)
        evaluates = self.slicer.seems_to_evaluate(self._cutting)
        self._made.append(Made(key_of(self._cutting), evaluates, digest.hexdigest()))
        mine = slice_of(len(indices), self.ranks.rank, self.ranks.world_size, self.findings.least)
        return list(samples[mine.start : mine.stop])

    def _batch_came(self, batch: object, iterator: loaders.LoaderIterator) -> None:
        super()._batch_came(batch, iterator)
        if self._cuts(iterator):
            self._loaders.batch_came(batch, iterator, self.slicer.seems_to_evaluate(iterator))
            if not self._entered:
                self._entered = True
                self._draws.__enter__()  # type: ignore[no-untyped-call]

    # ---- the passes
    def _training_begins(self) -> None:
        """Everything keeps drawing from one stream, as in one process."""

    def _forward(self, root: torch.nn.Module, call: Call, args: Args, kwargs: Kwargs) -> object:
        undo = quiet_recurrent(root)
        if torch.is_grad_enabled():
            self._loaders.forward_begins((args, kwargs), self.training.in_eval())
        try:
            return super()._forward(root, call, args, kwargs)
        finally:
            undo()

    def _evaluate(self, root: torch.nn.Module, call: Call, args: Args, kwargs: Kwargs) -> object:
        self._course.evaluated()
        return call(*args, **kwargs)

    def _pass_ended(self) -> None:
        if len(self._recorded) < _MOST_PASSES:
            added = self.averaging.added()
            self._recorded.append({number: plain(gradient) for number, gradient in added.items()})

    def _end_pass(self, losses: list[torch.Tensor], kept: bool) -> None:
        number = len(self._agreements)
        try:
            super()._end_pass(losses, kept)
        except OutOfStep as error:
            self._fallen_out = str(error)
            self._tell_difference(self._fallen_out)
        if self._fallen_out:
            return
        expected = self._expected.get("passes", [])
        if self._alone or number >= len(expected) or number >= len(self._recorded):
            return
        whole, mine = expected[number], self._recorded[number]
        current = self.slicer.current
        share = current.share if current is not None else 1.0 / self.ranks.world_size
        counts = current is None or current.counts
        told = self.communication.gathered(torch.tensor([share, float(counts)], dtype=torch.float64)).tolist()
        agreement = Agreement([one[0] for one in told], [bool(one[1]) for one in told])
        for place in sorted({*whole, *self.averaging.got}):
            nothing = torch.zeros(self.averaging.parameters[place].numel(), dtype=torch.float64)
            parts = self.communication.gathered(mine.get(place, nothing))
            agreement.add(whole.get(place, nothing), parts)
        self._agreements.append(agreement)

    def _cannot_end(self, error: Exception) -> NoReturn:
        if isinstance(error, OutOfStep):
            raise error
        super()._cannot_end(error)

    def _came_apart(self, why: str) -> None:
        self._tell_difference(f"{why}: it is computed from a rank's own part of a batch")

    def _tell_difference(self, why: str) -> None:
        if not self._different:
            self._different = why
            file = self._file.with_name(DIFFERENT.replace("*", str(self.ranks.rank)))
            file.write_text(why, encoding="utf-8")

    def training_ends(self) -> None:
        """The script has ended, and with it the course that is compared."""
        self._course.script_ended()

    # ---- findings
    def found(self, uses: Sequence[str]) -> Findings:  # at the end of the first optimizer step
        return self._found_alone() if self._alone else self._found_together(uses)

    def _found_alone(self) -> Findings:
        """Reasons not to try it with ranks; if there are none, writes the file for them."""
        refusals = [*self.training.obstacles, *self._unfit()]
        loader, in_eval = self._loaders.key, self.training.in_eval() or self._loaders.as_in_evaluations
        digests = [one.digest for one in self._made if loader is not None and one.of(loader, in_eval)]
        self.slicer.trains_on(loader, in_eval)
        normed = any(isinstance(part, modules.batch_norm_kind(torch)) for part in self._parts())
        findings = Findings(
            loader=loader,
            in_eval=in_eval,
            least=2 if normed else 1,
            device=next((p.device.type for p in self.averaging.parameters), "cpu"),
            refusals=tuple(refusals),
        )
        found = {
            "findings": to_json(findings), "passes": self._recorded,
            "digests": digests, "models": self._models, "augments": self._augments,
        }  # fmt: skip
        if not refusals:
            torch.save(found, self._file)
            seen = {"samples": "".join(digests), "models": str(self._models)}
            self._file.with_name(SEEN).write_text(json.dumps(seen), encoding="utf-8")
        return findings

    def _unfit(self) -> list[str]:
        reasons = []
        if self._fallen_out:
            reasons.append(self._fallen_out)
        elif not self.training.has_optimizers:
            reasons.append("it trains without an optimizer of torch.optim, so its gradients are not seen")
        elif not any(self._recorded):
            reasons.append("its gradients do not come from backward(), so they cannot be averaged")
        return [*reasons, *filter(None, [self._loaders.unfit()])]

    def _found_together(self, uses: Sequence[str]) -> Findings:
        expected = self._expected
        precision = self._course.precision = self._precision(uses)
        refusals: list[str] = []
        kinds = {"mean", "sum"}
        digests = [one.digest for one in self._made]
        if digests[: len(expected["digests"])] != expected["digests"][: len(digests)]:
            refusals.append("it draws different batches each time it runs, even with the same seed")
        elif self._models != expected["models"]:
            refusals.append("it builds a different model each time it runs, even with the same seed")
        elif self._fallen_out:
            refusals.append(self._fallen_out)
        first = self.slicer.latest
        if first is not None and first.whole < self.ranks.world_size * self.findings.least:
            refusals.append(
                f"its batches hold {first.whole} samples, too few for {self.ranks.world_size} ranks "
                f"with at least {self.findings.least} each"
            )
        for agreement in () if refusals else self._agreements:
            held = agreement.kinds(precision)
            if not held:
                refusals.append(agreement.why_not(precision))
                break
            kinds &= set(held)
        if not refusals and not kinds:
            refusals.append("one of its losses is a mean over the batch, another a sum")
        loss = "mean" if "mean" in kinds else "sum"
        if not refusals and self._different and loss == self.findings.loss:
            refusals.append(self._different)
        return replace(self.findings, loss=loss, refusals=tuple(refusals), remarks=tuple(self._remarks()))

    def _parts(self) -> list[torch.nn.Module]:
        return [part for root in self.training.roots for part in root.modules()]

    def _precision(self, uses: Sequence[str]) -> str:
        kinds = {parameter.dtype for parameter in self.averaging.parameters}
        if kinds == {torch.float64}:
            return "float64"
        lower = "autocast" in uses or kinds & {torch.bfloat16, torch.float16}
        return "lower" if lower else "float32"

    def _remarks(self) -> list[str]:
        """What will differ from one process anyway: batch norm's statistics, random numbers."""
        remarks = []
        if self.findings.least > 1 and not self.ranks.sync_batch_norm:
            remarks.append(
                "batch norm takes its statistics from a rank's slice, not from the whole batch "
                "(sync_batch_norm takes them from the whole batch)"
            )
        dropout = modules.dropout_kind(torch)
        if any(isinstance(part, dropout) and part.p > 0 for part in self._parts()):
            remarks.append("dropout draws different numbers than one process would")
        if self._draws.drew:
            remarks.append("random numbers in a training step differ from those that one process would draw")
        if self._expected["augments"]:
            remarks.append("augmentation draws different numbers than one process would")
        return remarks
