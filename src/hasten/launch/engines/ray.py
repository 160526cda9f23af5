"""Ray: a TorchTrainer with one worker on each host, which starts torchrun there.

Source: https://docs.ray.io/en/latest/train/api/api.html
"""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

from ...errors import UsageError
from ...records.launch_job import LaunchJob
from .engine import FOLDER, Does, LaunchEngine, Rendered, Start
from .torchrun import words

ENTRY = Path(__file__).resolve().parent.parent / "ray_entry.py"
PLACE, PORT = "(the first host)", 1  # in torchrun's words, until Ray has placed its workers
_RESOURCE = re.compile(r"([A-Za-z][A-Za-z0-9_-]{0,63})=([0-9]{1,6})")


class Ray(LaunchEngine):
    """Needs the extra ray, and a cluster whose address is in RAY_ADDRESS, or one that runs here."""

    name = "ray"
    does = Does(restarts=True, hosts=True)

    def available(self) -> str | None:
        if importlib.util.find_spec("ray") is None:
            return "it needs Ray: pip install 'hasten[ray]' on every host"
        return None

    def render(self, job: LaunchJob) -> Rendered:
        self.check(job)
        if job.address:
            raise self.cannot("--rdzv-endpoint: it finds where ranks meet. Leave it out")
        shown = {name: value for name, value in job.environment.items() if name not in job.secrets}
        told = {
            "name": job.name,
            "hosts": job.nodes.most,
            "resources": {"CPU": job.nproc_per_node, **_resources(job.options)},
            "max_failures": job.max_restarts,
            "folder": job.folder,
            "interface": job.interface,
            "python": job.python,
            "words": list(words(_each_host(job), PLACE, None)),
            "environment": shown,
            "secrets": sorted(job.secrets),
        }
        path = str(Path(job.folder) / FOLDER / f"{job.name}.json")
        hidden = {name: value for name, value in job.environment.items() if name in job.secrets}
        start = Start((job.python, str(ENTRY), path), hidden)
        return Rendered((start,), {path: json.dumps(told, indent=2) + "\n"})


def _each_host(job: LaunchJob) -> LaunchJob:
    """The job for one host. Ray restarts its workers itself, and its options are not torchrun's."""
    from dataclasses import replace

    return replace(job, options=(), max_restarts=0, port=PORT)


def _resources(options: tuple[str, ...]) -> dict[str, int]:
    found = {}
    for option in options:
        parts = _RESOURCE.fullmatch(option)
        if parts is None:
            raise UsageError(
                f"--engine-option {option}: Ray takes what each host needs as NAME=NUMBER, such as GPU=4"
            )
        found[parts[1]] = int(parts[2])
    return found
