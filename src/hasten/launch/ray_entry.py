"""Ray's driver, run by path: ``python ray_entry.py FILE``, the file as ``engines/ray.py`` makes it.

Each of Ray's workers has one host. The first says where ranks meet, and each starts torchrun on its host,
which starts the ranks: a script is a program, and Ray would have a function.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def train_on_host(told: dict[str, Any]) -> None:
    """Runs in Ray's worker, on every host. Raises RuntimeError if the ranks of this host fail.

    It is sent there as it is, so it imports what it needs itself.
    """
    import ctypes
    import os
    import signal
    import socket
    import subprocess

    import torch.distributed as dist

    place = [""]
    if dist.get_rank() == 0:
        with socket.socket() as probe:  # Ray's own port is taken by Ray's own group
            probe.bind(("", 0))
            port = probe.getsockname()[1]
        address = os.environ["MASTER_ADDR"]
        place = [f"[{address}]:{port}" if ":" in address else f"{address}:{port}"]
    dist.broadcast_object_list(place)
    address = place[0].rpartition(":")[0].strip("[]")
    several = told["hosts"] > 1
    words = [place[0] if word == told["place"] else word for word in told["words"]]
    towards = [address, told["interface"]] if several else ["", ""]

    def die_with_worker() -> None:
        ctypes.CDLL(None).prctl(1, signal.SIGTERM, 0, 0, 0)  # PR_SET_PDEATHSIG

    unset = (
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "NODE_RANK",
        "MASTER_ADDR",
        "MASTER_PORT",
    )
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    process = subprocess.Popen(
        [told["python"], told["entry"], *towards, *words],
        cwd=told["folder"],
        env={**environment, **told["environment"]},
        stdin=subprocess.DEVNULL,
        preexec_fn=die_with_worker,
    )
    code = process.wait()
    if code:
        raise RuntimeError(f"torchrun on {socket.gethostname()} ended with exit code {code}")


def main(path: str) -> int:
    """The exit code."""
    from hasten.launch.engines.engine import FOLDER
    from hasten.launch.engines.ray import PLACE, PORT
    from hasten.launch.engines.torchrun import ENTRY
    from hasten.saying import say

    with open(path, encoding="utf-8") as file:
        told = json.load(file)
    told["environment"] |= {name: os.environ[name] for name in told.pop("secrets") if name in os.environ}
    told |= {"place": f"{PLACE}:{PORT}", "entry": str(ENTRY)}
    import ray
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    # without an address Ray would begin a cluster of its own, on this host alone
    ray.init(address=os.environ.get("RAY_ADDRESS") or "auto", log_to_driver=True)
    trainer = TorchTrainer(
        train_on_host,
        train_loop_config=told,
        torch_config=TorchConfig(backend="gloo"),
        scaling_config=ScalingConfig(
            num_workers=told["hosts"],
            resources_per_worker=told["resources"],
            use_gpu=bool(told["resources"].get("GPU")),
            placement_strategy="STRICT_SPREAD" if told["hosts"] > 1 else "PACK",
        ),
        run_config=RunConfig(
            name=told["name"],
            storage_path=os.path.join(told["folder"], FOLDER),
            failure_config=FailureConfig(max_failures=told["max_failures"]),
        ),
    )
    try:
        trainer.fit()
    except Exception as error:  # Ray has classes of its own for it, which change
        say(f"hasten: Ray ended the run: {type(error).__name__}: {error}")
        return 1
    finally:
        ray.shutdown()
    return 0


if __name__ == "__main__":
    from entry import find_ourselves  # type: ignore[import-not-found]

    find_ourselves()
    sys.exit(main(sys.argv[1]))
