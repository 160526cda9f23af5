"""Files for schedulers that do not run on this host: Kubernetes with Kubeflow's Trainer, and SkyPilot.

hasten and torch are in the image, and torchrun starts the ranks. Sources:
https://www.kubeflow.org/docs/components/trainer/ (TrainJob, v1alpha1),
https://docs.skypilot.co/en/latest/reference/yaml-spec.html.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import PurePath

from ...errors import UsageError
from ...records.launch_job import LaunchJob
from .engine import Does, LaunchEngine, Rendered
from .yaml import Block, Value, yaml

_AMOUNT = re.compile(r"([A-Za-z][A-Za-z0-9_./-]{0,127})=([A-Za-z0-9_.:+-]{1,64})")


class Exporter(LaunchEngine):
    """Prints a file, and starts nothing."""

    does = Does(hosts=True, like_here=False, contains=True, renders_only=True)

    def available(self) -> str | None:
        return None


def inside(job: LaunchJob) -> tuple[str, ...]:
    """What each rank runs where hasten is on PATH and the job's folder is the working directory."""
    return ("hasten", *(_relative(word, job.folder) for word in job.command[2:]))


def _relative(word: str, folder: str) -> str:
    """Our ``--plan=FILE`` with its path in the container. Raises UsageError if it would not be there."""
    option, equals, path = word.partition("=")
    if option != "--plan" or not equals or not os.path.isabs(path):
        return word
    if not PurePath(path).is_relative_to(folder):
        raise UsageError(
            f"--plan {path} is outside of the working directory, and only that is sent along: copy it here"
        )
    return f"--plan={PurePath(path).relative_to(folder)}"


def amounts(options: tuple[str, ...], engine: str) -> dict[str, str]:
    """The amounts by name from ``--engine-option NAME=AMOUNT``. Raises UsageError for anything else."""
    found = {}
    for option in options:
        parts = _AMOUNT.fullmatch(option)
        if parts is None:
            raise UsageError(f"--engine-option {option}: {engine} takes NAME=AMOUNT of what each host needs")
        found[parts[1]] = parts[2]
    return found


class Kubernetes(Exporter):
    """A TrainJob, for ``kubectl create -f``. Its runtime tells torchrun of nodes by variables (PET_...)."""

    name = "kubernetes"

    def render(self, job: LaunchJob) -> Rendered:
        self.check(job)
        if not job.image:
            raise UsageError("--engine kubernetes needs --image IMAGE, with your script and hasten in it")
        wanted = amounts(job.options, self.name)
        trainer: dict[str, Value] = {
            "image": job.image,
            "command": ["torchrun", "--no-python"],
            "args": list(inside(job)),
            "numNodes": job.nodes.most,
            "numProcPerNode": job.nproc_per_node,
            "env": [self._variable(job, name) for name in job.environment],
        }
        if wanted:
            trainer["resourcesPerNode"] = {"requests": dict(wanted), "limits": dict(wanted)}
        runtime = {
            "apiGroup": "trainer.kubeflow.org",
            "kind": "ClusterTrainingRuntime",
            "name": "torch-distributed",
        }
        document: dict[str, Value] = {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "metadata": {"name": job.name.lower()},
            "spec": {"runtimeRef": runtime, "trainer": trainer},
        }
        return Rendered(files={f"{job.name}.yaml": yaml(document)})

    @staticmethod
    def _variable(job: LaunchJob, name: str) -> dict[str, Value]:
        if name not in job.secrets:
            return {"name": name, "value": job.environment[name]}
        return {"name": name, "valueFrom": {"secretKeyRef": {"name": job.name.lower(), "key": name}}}


class SkyPilot(Exporter):
    """A task for ``sky launch``, which asks for the values of --env: ``sky launch --secret NAME``."""

    name = "skypilot"

    def render(self, job: LaunchJob) -> Rendered:
        self.check(job)
        words = ["--nproc-per-node", str(job.nproc_per_node), "--no-python", *inside(job)]
        run = (
            'MASTER_ADDR="$(echo "$SKYPILOT_NODE_IPS" | head -n 1)"\n'
            'exec torchrun --nnodes "$SKYPILOT_NUM_NODES" --node-rank "$SKYPILOT_NODE_RANK" '
            f'--master-addr "$MASTER_ADDR" --master-port {job.port} {_in_one_line(words)}\n'
        )
        shown: dict[str, Value] = {
            name: value for name, value in job.environment.items() if name not in job.secrets
        }
        document: dict[str, Value] = {"name": job.name, "num_nodes": job.nodes.most, "workdir": "."}
        wanted = amounts(job.options, self.name)
        if job.image:
            wanted["image_id"] = f"docker:{job.image}"
        if wanted:
            document["resources"] = dict(wanted)
        document["envs"] = shown
        if job.secrets:
            document["secrets"] = dict.fromkeys(sorted(job.secrets))
        document["run"] = Block(run)
        return Rendered(files={f"{job.name}.yaml": yaml(document)})


def _in_one_line(words: list[str]) -> str:
    r"""For bash. What YAML's blocks do not keep is written as bash's ``$'\n'``."""
    return " ".join(_quoted(word) for word in words)


def _quoted(word: str) -> str:
    if word.isprintable():
        return shlex.quote(word)
    made = "".join(
        chr(byte) if 32 <= byte < 127 and chr(byte) not in "\\'" else f"\\x{byte:02x}"
        for byte in word.encode(errors="surrogateescape")
    )
    return f"$'{made}'"
