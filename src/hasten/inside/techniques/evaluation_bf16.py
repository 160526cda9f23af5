"""Evaluate in bfloat16 by autocast; the model's outputs return in float32.

What it does: passes that record no gradients, with the whole model in eval mode, run under autocast. The
training stays as it is, in full precision or under bf16: that one leaves such passes alone, so nothing is
lowered twice. The results of an evaluation are rounded, and so are decisions that follow from them: early
stopping, "the best checkpoint so far" and ReduceLROnPlateau compare such numbers, and may decide differently
if two are close. The first pass of a model, and some later ones, are also computed in full precision: if the
outputs differ by more than 3.1% (eight roundings of bfloat16, which the guard allows gradients under bf16),
or cannot be compared, the model is left alone. The guard compares evaluations of training batches, and what
is printed, and the training must be the same as without.

When it helps: evaluations take a good part of a run, and large products and convolutions most of an
evaluation, on processors and GPUs with bfloat16 instructions. When it hurts: small layers, whose casts cost
more than the products save. To quote metrics, evaluate once more in full precision at the end, or let `hasten
verify` judge the metric.

Source: https://docs.pytorch.org/docs/stable/amp.html
"""

from __future__ import annotations

from ...records.facts import Facts
from ...records.plan import Settings
from ...records.trial import Proof
from ..observing.uses import EVALUATES_IN_TRAINING_MODE, LOWERS_EVALUATIONS
from ..training import NotApplicable, Training
from .base import Technique, conflicting, saw_evaluation
from .support.lowered_arrays import allow_arrays, need_no_arrays
from .support.lowered_evaluations import MOST, LoweredEvaluations
from .support.lowering import refuse_bfloat16
from .support.products import device_of
from .support.several_ranks import is_one_of_several


class EvaluationBf16(Technique):
    name = "evaluation_bf16"
    summary = "evaluation passes under bfloat16 autocast, outputs cast back to float32"
    layer = "application"
    risk = "close"
    scope = "live"
    restarts = True
    parts = ("evaluation",)
    from_second = True  # most passes that are computed in full precision, too, come in the first
    conflicts = conflicting(
        matmul_precision="it lowers the products of evaluations, too",
        processes="ranks share the passes of an evaluation among them",
    )

    def __init__(self) -> None:
        self._evaluations: LoweredEvaluations | None = None

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        reasons = refuse_bfloat16(facts)
        if facts.observation.steps and facts.observation.run is None:  # a run under a plan tells of neither
            reasons.append("it is not known how the script evaluates")
        if facts.observation.run is not None and facts.observation.run.rollouts:
            reasons.append("passes in eval mode collect what is trained on: the training would change")
        if saw_evaluation(facts) and not facts.observation.evaluated:
            reasons.append("no evaluation of the models that are trained was seen")
        elif saw_evaluation(facts) and EVALUATES_IN_TRAINING_MODE in facts.observation.uses:
            reasons.append("the script evaluates in training mode: only passes in eval mode are lowered")
        if LOWERS_EVALUATIONS in facts.observation.uses:
            reasons.append("the script already evaluates under autocast")
        if "compile" in facts.observation.uses:
            reasons.append(
                "the script compiles its model, which would be compiled once more for each precision"
            )
        return reasons

    def install(self, training: Training, settings: Settings) -> None:
        if is_one_of_several(training):
            raise NotApplicable(
                "ranks would each compare evaluations of their own, while others may wait for them"
            )
        torch, device = training.torch, device_of(training)
        on_gpu = device is not None and device.type == "cuda"
        if on_gpu and not torch.cuda.is_bf16_supported(including_emulation=False):
            raise NotApplicable("this GPU has no bfloat16 arithmetic: it came with Ampere")
        self._evaluations = LoweredEvaluations(torch, torch.bfloat16, training.teaches)
        training.wrap_inside(self.name, self._evaluations)
        training.evaluation_departures[self.name] = self._evaluations.departure
        allow_arrays(training, torch.bfloat16, self.name)

    def remove(self, training: Training) -> None:
        training.forward_wrappers.pop(self.name, None)
        training.evaluation_departures.pop(self.name, None)
        need_no_arrays(training, self.name)

    def proof(self, training: Training) -> Proof:
        """Counts the passes under autocast; and for those also computed in full precision, the outputs must
        differ in some bits, and by no more than is allowed.
        """
        found = self._evaluations
        assert found is not None
        evidence = (
            f"{found.passes} passes of evaluations under autocast; in {found.compared} that were compared, "
            f"what the model returned departed by {found.farthest:.2%} at most, of {MOST:.1%} allowed"
        )
        return Proof(self.name, found.in_effect, "; ".join([evidence, *found.why_not()]))

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        return (
            "model.eval()\n"
            "with torch.no_grad(), torch.autocast(device_type, dtype=torch.bfloat16):\n"
            "    output = model(inputs)\n"
            "output = output.float()  # before metrics are computed"
        )
