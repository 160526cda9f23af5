"""What trials run: the script with its arguments, its environment, and the folders that must stay
untouched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..inside.job import Hosts
from ..launch.chosen import OwnRanks
from ..launch.shares import shares
from ..launch.world import World
from ..records.machine import Machine
from ..records.ranks import Findings


@dataclass(frozen=True)
class Stage:
    """What a trial runs, and where; ``Trials`` starts workers for it.

    ``folders``, the working directory and the script's folder, must be protected; everything else the script
    can write is protected if possible. ``protect`` False is the user's --allow-writes: protection is still
    tried, but not required.
    """

    argv: tuple[str, ...]
    machine: Machine
    environment: Mapping[str, str]
    folders: tuple[str, ...]
    module: bool = False  # argv[0] names a module, as with python -m
    protect: bool = True
    own_ranks: OwnRanks | None = None  # the script is one of several by itself; None: it trains alone
    batch_divisor: int = 1  # loaders that draw at random give batches with so many times fewer samples
    stdout_to_stderr: bool = False  # keep our standard output free of the script's
    world: World | None = None  # of the other hosts whose ranks train together with ours

    @property
    def seen(self) -> Machine:
        """The part of the machine that a worker sees: all of it, or a rank's share."""
        if self.own_ranks is None:
            return self.machine
        return shares(self.machine, self.own_ranks.count)[0].part_of(self.machine)

    def hosts_of(self, findings: Findings | None) -> Hosts | None:
        """Those whose ranks train together; None for one process alone, of which there are no findings yet.
        All hosts start the same workers in the same order."""
        return self.world.launch() if self.world is not None and findings is not None else None


def offline(environment: Mapping[str, str], folder: str) -> dict[str, str]:
    """``environment`` for a trial: experiment trackers log into files instead of to a server.

    Weights & Biases, Comet and Neptune write below the working directory, which is protected; MLflow into
    ``folder``; ClearML into its cache in the home folder. A tracker that the user switched off stays off.
    What the script itself asks for in code, such as ``wandb.init(mode="online")`` or
    ``mlflow.set_tracking_uri(...)``, takes precedence, and Comet's older ``Experiment()`` reads no
    variable.
    """
    made = {key: value for key, value in environment.items() if key not in _SERVERS_OWN}
    made["GIT_DISCOVERY_ACROSS_FILESYSTEM"] = "1"  # an overlay may start below a repository's root
    for key, value in _OFFLINE.items():
        if made.get(key, "").lower() not in _SWITCHED_OFF:
            made[key] = value
    runs = Path(folder, "mlruns").absolute().as_uri()
    return {**made, "MLFLOW_TRACKING_URI": runs, "MLFLOW_REGISTRY_URI": runs}


# Sources: the trackers' own pages on environment variables; Comet's and MLflow's configuration in code.
_OFFLINE = {
    "WANDB_MODE": "offline",
    "COMET_MODE": "offline",  # read by the trainer of transformers
    "COMET_START_ONLINE": "0",  # read by comet_ml.start()
    "NEPTUNE_MODE": "offline",
    "CLEARML_OFFLINE_MODE": "1",
    "MLFLOW_ALLOW_FILE_STORE": "true",  # without it, MLflow 3 refuses to log into files
}
_SWITCHED_OFF = ("disabled", "debug")  # "debug" is Neptune's name for it
_SERVERS_OWN = ("MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_ID")  # they name things only the user's server knows
