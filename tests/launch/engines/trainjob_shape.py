"""The shape of a TrainJob (trainer.kubeflow.org/v1alpha1), as far as ours use it.

Written by hand from the published API reference; ``...`` after a type says that it may be left out.
"""

from __future__ import annotations

import re

NAME = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")  # RFC 1035 label, as the webhook asks for
QUANTITY = re.compile(r"[0-9.]+([eEinumkMGTP]{0,2})")

SHAPE = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainJob",
    "metadata": {"name": NAME},
    "spec": {
        "runtimeRef": {
            "apiGroup": "trainer.kubeflow.org",
            "kind": "ClusterTrainingRuntime",
            "name": NAME,
        },
        "trainer": {
            "image": str,
            "command": [str],
            "args": [str],
            "numNodes": int,
            "numProcPerNode": int,
            "env": [
                {
                    "name": str,
                    "value": (str, ...),
                    "valueFrom": ({"secretKeyRef": {"name": NAME, "key": str}}, ...),
                }
            ],
            "resourcesPerNode": ({"requests": dict, "limits": dict}, ...),
        },
    },
}


def check(found: object, shape: object = SHAPE, where: str = "") -> None:
    """Raises AssertionError where ``found`` is not of that shape."""
    if isinstance(shape, dict):
        assert isinstance(found, dict), where
        assert found.keys() <= shape.keys(), (where, found.keys() - shape.keys())
        for key, inner in shape.items():
            left_out = isinstance(inner, tuple) and inner[-1] is ...
            assert key in found or left_out, f"{where}.{key} is missing"
            if key in found:
                check(found[key], inner[0] if isinstance(inner, tuple) else inner, f"{where}.{key}")
    elif isinstance(shape, list):
        assert isinstance(found, list), where
        for number, item in enumerate(found):
            check(item, shape[0], f"{where}[{number}]")
    elif isinstance(shape, re.Pattern):
        assert isinstance(found, str), where
        assert shape.fullmatch(found), (where, found)
    elif isinstance(shape, type):
        assert type(found) is shape, (where, found)
    else:
        assert found == shape, where
