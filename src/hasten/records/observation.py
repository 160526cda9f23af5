"""What a worker saw of a script's training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .whole_run import WatchedRun

PHASES = ("data", "forward", "loss", "backward", "optimizer", "other")


@dataclass(frozen=True)
class Root:
    """A module that the script calls and trains: the outermost one whose parameters an optimizer owns."""

    name: str  # class, with its module
    parameters: int  # all that it holds
    dtypes: tuple[str, ...]
    devices: tuple[str, ...]
    convolutions: int  # 2-d convolutions
    batch_norm: bool
    dropout: bool
    scripted: bool = False
    compiled: bool = False
    trained: int | None = None  # parameters that are; None where nobody counted
    blocks: int = 0  # children of one class in a row, as a transformer's layers
    channels_last: bool = False  # its convolutions' weights lie so


@dataclass(frozen=True)
class Loader:
    """A DataLoader of the script's, identified by its content; ``training`` when its batches reached a
    training step.
    """

    dataset: str
    samples: int | None  # None where the dataset has no length
    batch_size: int | None
    workers: int
    iterable: bool
    pin_memory: bool
    training: bool
    default_fetch: bool  # items are taken one by one with dataset[i]
    sample_bytes: int | None = None
    default_collate: bool = True  # batches are made by torch's default_collate
    in_memory: bool = False  # samples are rows of tensors that are in memory already
    random: str | None = None  # why samples are not the same each time; "" proven so, None not looked at
    keeps_workers: bool = False  # its worker processes stay from epoch to epoch
    transforms: bool = False  # they are random and come by a list of transforms: the first may not be
    pictures: bool = False  # its transforms end with those that make tensors of pictures
    resizes: bool = False  # a transform of its pictures resizes them

    @property
    def worker_processes(self) -> str:
        """How many, in words."""
        return "1 worker process" if self.workers == 1 else f"{self.workers} worker processes"


@dataclass(frozen=True)
class Optimizer:
    """An optimizer of the script's. ``distinct_groups``: how many there would be if those of equal
    hyperparameters were one; ``why_not_merged``: why they cannot be, "" where they can.
    """

    name: str
    parameters: int
    fused: bool
    can_fuse: bool
    why_not: str = ""
    can_foreach: bool = False  # it now goes tensor by tensor, and could take all at once
    devices: tuple[str, ...] = ()
    groups: int = 1
    distinct_groups: int = 1
    why_not_merged: str = ""


@dataclass(frozen=True)
class Step:
    """One step: from the end of one optimizer step to the end of the next.

    ``evaluations`` are forward passes without gradients and ``restarts`` loaders begun anew that fell into
    it: where they are more than usual, the step's time is real but not a training step's.
    """

    seconds: float
    samples: int | None  # that a loader gave; None where no batch was seen
    evaluations: int
    restarts: int
    phases: Mapping[str, float]
    losses: tuple[float, ...]
    signature: tuple[int, int, int]  # optimizer, forward passes, backward passes
    inputs: int | None = (
        None  # samples that went through the modules, where no loader gave any and it is clear
    )
    elements: int | None = None  # numbers in the tensors that a loader gave, padding included
    setup_seconds: float = 0.0  # of ``seconds``: techniques' set-up that can only be done in steps
    new_model: bool = False  # one was called for the first time: another training may begin with it


PROFILER = "profiler"
"""The leftover that slows all of a run down, and not its passes alone."""


@dataclass(frozen=True)
class Leftover:
    """Something for debugging that is on while the script trains. ``where``: the line that switched it on,
    "" where it was no line. ``removable``: off, the training computes the same.
    """

    name: str
    where: str
    removable: bool


COPIES = (".to()", ".cuda()")
"""Those waits that copy from main memory to another device."""


@dataclass(frozen=True)
class Wait:
    """A line at which steps stand still: ``calls`` and ``seconds`` in a mean step."""

    what: str  # ".item()", "print", one of COPIES, ...
    where: str
    calls: float
    seconds: float


@dataclass(frozen=True)
class GpuMemory:
    """The most that the training's tensors took of a GPU (``allocated_bytes``), and torch for them
    (``reserved_bytes``, cached pieces included); ``retries``: how often cached pieces were given back to make
    room.
    """

    device: str  # "cuda:0"
    total_bytes: int
    allocated_bytes: int
    reserved_bytes: int
    retries: int


@dataclass(frozen=True)
class Observation:
    """One worker's view of the training: its parts, and the steps it watched after ``warmup_steps`` more."""

    steps: tuple[Step, ...]
    warmup_steps: int
    cycle: int  # optimizer steps in one repeating block of the script
    roots: tuple[Root, ...]
    loaders: tuple[Loader, ...]
    optimizers: tuple[Optimizer, ...]
    batch_size: int | None
    threads: int
    torch: str  # version
    start_seconds: float  # process start to the first step's end
    metrics: Mapping[str, float] = field(default_factory=dict)  # the latest that the script told of
    step_said: bool = False  # the script says itself where a step ends
    uses: tuple[str, ...] = ()  # what the script already does: "autocast", "GradScaler", "compile", ...
    autocast: tuple[str, ...] = ()  # what the script itself lowers its training passes to: "bfloat16"
    leftovers: tuple[Leftover, ...] = ()
    waits: tuple[Wait, ...] = ()  # the longest first
    backends: tuple[str, ...] = ()  # of torch.compile, that other packages bring
    obstacles: tuple[str, ...] = ()  # why nothing can be switched in this training
    gpu_memory: tuple[GpuMemory, ...] = ()
    run: WatchedRun | None = None  # where the wall clock went, as far as the run was watched
    padding: float | None = None  # share of the columns of sequences that are padding; None: nobody looked
    operators: int | None = None  # that a backward pass goes through; None: nobody counted
    growth: float = 0.0  # a step's time grows as this power of a batch's elements; 0: batches are alike
    trainings: tuple[int, ...] = ()  # steps of each so far, one after the other
    rest: Step | None = None  # what came after the last step, as in ``ScriptEnded``; None: it went on

    @property
    def training_loaders(self) -> tuple[Loader, ...]:
        return tuple(loader for loader in self.loaders if loader.training)

    @property
    def evaluated(self) -> bool:
        """Whether an evaluation was seen."""
        return self.run is not None and self.run.part("evaluation").count > 0

    @property
    def first_epoch_alone(self) -> bool:
        """Whether no more than an epoch was seen, and it began as no other will: worker processes of the
        training's loaders start in it, and stay.
        """
        made = [loader for loader in self.training_loaders if loader.workers]
        seen = self.run is not None and not self.run.ended and self.run.epochs == 1
        return seen and bool(made) and all(loader.keeps_workers for loader in made)
