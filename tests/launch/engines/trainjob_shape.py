"""Whether a document is a TrainJob, by the models that Kubeflow generates from its OpenAPI specification."""

from __future__ import annotations

import re
from typing import Any

from kubeflow_trainer_api.models.trainer_v1alpha1_train_job import TrainerV1alpha1TrainJob

NAME = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")  # RFC 1035 label, as the webhook asks for


def check(found: dict[str, Any]) -> None:
    """Raises ValueError for a value of a wrong type or a missing one, AssertionError for a field that is not
    of a TrainJob and for a name that its webhook refuses.
    """
    job = TrainerV1alpha1TrainJob.from_dict(found)
    assert job is not None
    assert job.to_dict() == found, "the model reads it otherwise: it has a field that no TrainJob has"
    assert NAME.fullmatch(found["metadata"]["name"])
    assert (found["apiVersion"], found["kind"]) == ("trainer.kubeflow.org/v1alpha1", "TrainJob")
