"""A worker's job: one JSON object in our own environment variable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..records.machine import Machine
from ..records.plan import BASELINE, Plan
from ..records.ranks import Findings
from ..records.run_checkpoints import RunCheckpoints
from ..records.run_pace import WatchedRun
from ..records.run_tuning import RunTuning

VARIABLE = "HASTEN_JOB"
# Files in a rehearsal's folder. Their presence requests something:
IN_FLOAT64, WITH_SUM = "float64", "sum"  # compute in float64; take the loss for a sum over samples
CLOCKS, AHEAD = "clocks", "clocks-ahead"  # replace the clocks; let them run ahead
SHORT = "short-epochs"  # end each epoch after a few batches
# or reports something:
EPOCH = "epoch-ended"  # an epoch has ended by itself
SEEN = "one-process.seen"  # digests of the samples and of the models of the first step
COURSE = "one-process.course"  # the course of the training in one process
DIFFERENT = "different-*"  # how a rank differs from one process


def shortened(batches: int, share: float) -> int:
    """How many of them a pass over a loader gives where it gives so large a share."""
    return batches if share >= 1 else max(1, round(share * batches))


@dataclass(frozen=True)
class Sandbox:
    """``folders`` must be protected; ``layers`` is where their layers go; ``prelude`` has layers kept from an
    earlier worker, by the place that they cover. ``through`` are folders that are written directly;
    ``aside``, one of them, is deleted with the trials.
    """

    folders: tuple[str, ...]
    layers: str
    prelude: Mapping[str, str] = field(default_factory=dict)
    through: tuple[str, ...] = ()
    aside: str = ""
    required: bool = True  # without overlays, writes are denied; if that is impossible, no script starts


@dataclass(frozen=True)
class Perturbation:
    """Noise added to a baseline, the size of a plan's rounding, ``relative`` to each layer's values."""

    relative: float
    redraw: bool = False  # different random numbers from the baseline's, from the first step on
    seed: int = 0
    after: int = 0  # steps without noise


@dataclass(frozen=True)
class Hosts:
    """Several machines that train together. ``ranks``: those of each host, in the order in which they number
    themselves there; ``names``: what to call each host; ``here``: which one this is. ``address``: by which it
    reaches the others, and at which alone it listens. ``meeting``: HOST:PORT, where a process of rank 0 keeps
    what they tell each other, for who has the ``key`` (hex). ``launch``: a number of its own for each group
    of ranks that meets there.
    """

    ranks: tuple[tuple[int, ...], ...]
    names: tuple[str, ...]
    here: int
    address: str
    meeting: str
    key: str
    launch: int = 0

    def of(self, rank: int) -> int:
        """The number of that rank's host."""
        return next(number for number, ranks in enumerate(self.ranks) if rank in ranks)


@dataclass(frozen=True)
class Ranks:
    """This worker is one of ``world_size`` that train one script together, each on its slice of a batch.

    All of them get the same job seed and PYTHONHASHSEED, so that they build the same model and draw the same
    batches. ``store``: where they meet, as ``file:///PATH`` (a file that does not exist yet and that all can
    see, a new one for each launch) or ``tcp://HOST:PORT``, which rank 0 serves. ``memory``: two descriptors
    of empty memory (memfd_create) that all inherit, for ranks that see neither each other's /proc nor
    /dev/shm; without them, ranks find memory themselves. A rank binds itself to ``cores`` (their numbers), if
    there are any; the launcher sets the number of threads and CUDA_VISIBLE_DEVICES.
    """

    rank: int
    world_size: int
    local_rank: int
    store: str
    backend: str = "shm"  # or "gloo", "nccl", "mpi4py", "ccl"
    memory: tuple[int, ...] = ()
    cores: tuple[int, ...] = ()
    timeout_seconds: float = 600.0  # how long the others wait for a rank
    sync_batch_norm: bool = False
    findings: Findings | None = None  # of a rehearsal; None only in a rehearsal
    hosts: Hosts | None = None  # None: all ranks are on one machine


@dataclass(frozen=True)
class OwnGroup:
    """The script makes its process groups itself; the environment says which rank it is. ``backend`` replaces
    those that it names, unless they are for GPUs; "" keeps them. ``port``: where the ranks of a trial meet,
    whatever port the script names, since other trials may run at the same time; 0 for the script's.
    ``timeout_seconds``: how long a rank waits for the others where the script does not say; 0 for torch's
    half an hour.
    """

    backend: str = ""
    port: int = 0
    timeout_seconds: float = 0.0


@dataclass(frozen=True)
class Job:
    """``plan`` is in force from the first step on; the coordinator may switch it later."""

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
    frees_gpu: bool = False  # after requested steps, give back GPU memory that no tensor uses
    closely: bool = False  # time the lines at which steps wait, and phases on the GPU itself
    whole: bool = False  # train to the end like `hasten run`, and only then send a summary
    ranks: Ranks | None = None  # None: it trains alone, or handles ranks itself
    own_group: OwnGroup | None = None
    watched: WatchedRun | None = None  # a run says where its steps become slower; None: it does not look
    tuning: RunTuning | None = None  # a run tries techniques as it trains; None: it does not
    checkpoints: RunCheckpoints | None = None  # a run that can be restarted exactly
    terminal: tuple[int, ...] = ()  # columns and lines of the user's, where our output goes into files
    samples: str = ""  # folder for samples that are kept for other processes; "" for none
    batch_divisor: int = 1  # batches of loaders that draw at random have so many times fewer samples
    share_of_epochs: float = 1.0  # of its batches that each pass over a loader gives: all, except in trials
    turn: str = ""  # file that is there until the worker may compute, from its first optimizer on
    evaluations: bool | None = False  # each of an optimizer's closure is a step; None: it is to be found out
    rehearsal: str = ""  # folder of a rehearsal: one process leaves there what the ranks are compared with

    @property
    def is_watched(self) -> bool:
        """Whether anybody has a use for what is seen of the training: watching takes time of every step."""
        asked = (self.descriptor, self.ranks, self.tuning, self.seed)
        return bool(self.plan) or any(one is not None for one in asked)

    @property
    def timed(self) -> bool:
        """Whether single steps are timed: not in a whole training, nor in a run."""
        return self.descriptor is not None and not self.whole
