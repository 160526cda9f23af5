"""What a worker is told when it starts: one JSON object in an environment variable of our own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..records.machine import Machine
from ..records.plan import BASELINE, Plan
from ..records.ranks import Findings

VARIABLE = "HASTEN_JOB"
IN_FLOAT64, WITH_SUM = "float64", "sum"  # files in a rehearsal's folder: to compute so, to weigh losses so
CLOCKS, AHEAD = "clocks", "clocks-ahead"  # others there: to stand in for the clocks, to let them run ahead
SHORT, EPOCH = "short-epochs", "epoch-ended"  # to end each epoch after some batches; one has ended by itself
COURSE = "one-process.trace"  # where one process leaves what it came to
DIFFERENT = "different-*"  # what a rehearsal's ranks leave there where they are not one process


@dataclass(frozen=True)
class Sandbox:
    """Folders that must be protected, where to put layers, and layers kept from an earlier worker, by the
    place that they cover. ``through`` are folders that are written as they are; ``aside``, one of them,
    goes with the trials.
    """

    folders: tuple[str, ...]
    layers: str
    prelude: Mapping[str, str] = field(default_factory=dict)
    through: tuple[str, ...] = ()
    aside: str = ""
    required: bool = True  # then writes are denied where they cannot be led elsewhere, or no script starts


@dataclass(frozen=True)
class Perturbation:
    """Noise added to a baseline, as large as a plan's rounding: ``relative`` to what each layer computes."""

    relative: float
    redraw: bool = False  # other random numbers than the baseline's, from the first step on
    seed: int = 0


@dataclass(frozen=True)
class Ranks:
    """This worker is one of ``world_size`` that train one script together, each on its slice of a batch.

    All of them get the same job seed and PYTHONHASHSEED, so that they build the same model and draw the same
    batches. ``store``: where they meet, by ``file:///PATH`` (a file that does not exist yet and that all see,
    a new one for each launch) or by ``tcp://HOST:PORT``, which rank 0 serves. ``memory``: two descriptors of
    empty memory (memfd_create) that all inherit, for ranks that see neither each other's /proc nor /dev/shm;
    without, they find memory themselves. A rank binds itself to ``cores``, by their numbers, if there are
    any; the number of threads, and CUDA_VISIBLE_DEVICES, are up to the launcher.
    """

    rank: int
    world_size: int
    local_rank: int
    store: str
    backend: str = "shm"  # or "gloo", "nccl", "mpi4py", "ccl"
    memory: tuple[int, ...] = ()
    cores: tuple[int, ...] = ()
    timeout_seconds: float = 600.0  # after which a rank that does not come is given up
    sync_batch_norm: bool = False
    findings: Findings | None = None  # of a rehearsal; None only in a rehearsal


@dataclass(frozen=True)
class OwnGroup:
    """The script makes its process groups itself; the environment says which rank it is. ``backend`` stands
    in for those that it names, unless they are for GPUs; "" where none is to. ``port``: where the ranks of a
    trial meet, whatever port the script names, since other trials may stand beside it; 0 for the script's.
    """

    backend: str = ""
    port: int = 0


@dataclass(frozen=True)
class Job:
    """``plan`` is in force from the first step on; whoever converses with the worker may switch it later."""

    argv: tuple[str, ...]
    machine: Machine
    plan: Plan = BASELINE
    descriptor: int | None = None  # the worker's end of the conversation
    sandbox: Sandbox | None = None
    seed: int | None = None  # for torch, random and numpy, before the script starts
    traced: bool = False  # record what the guard compares
    perturbation: Perturbation | None = None
    doubled: bool = False  # compute in float64 what the script computes in float32
    strict: bool = False  # a technique that does not apply ends the run
    module: bool = False  # argv[0] names a module, as with python -m
    closely: bool = False  # time the lines at which steps stand still, and phases on the GPU itself
    whole: bool = False  # train to the end as `hasten run` does, and send a summary of it only then
    ranks: Ranks | None = None  # None: it trains alone, or knows of the others itself
    own_group: OwnGroup | None = None
    terminal: tuple[int, ...] = ()  # columns and lines of the user's, where our output goes into files
    rehearsal: str = ""  # folder of a rehearsal: a world of one leaves there what the ranks are to find

    @property
    def timed(self) -> bool:
        """Whether anybody asks what single steps take: nobody does of a whole training, or of a run."""
        return self.descriptor is not None and not self.whole
