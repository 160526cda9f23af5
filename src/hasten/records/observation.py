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
    parameters: int  # all of its parameters
    dtypes: tuple[str, ...]  # of its parameters, but for whole numbers
    devices: tuple[str, ...]
    convolutions: int  # 2-d convolutions
    batch_norm: bool
    dropout: bool
    scripted: bool = False
    compiled: bool = False
    trained: int | None = None  # parameters that are trained; None if not counted
    blocks: int = 0  # children of one class in a row, like a transformer's layers
    channels_last: bool = False  # its convolutions' weights have that layout
    products: int = 0  # 2-d convolutions that may be matrix products


@dataclass(frozen=True)
class Loader:
    """One of the script's DataLoaders, identified by its content; ``training`` if its batches reached a
    training step.
    """

    dataset: str
    samples: int | None  # None if the dataset has no length
    batch_size: int | None
    workers: int
    iterable: bool
    pin_memory: bool
    training: bool
    default_fetch: bool  # items are taken one by one with dataset[i]
    sample_bytes: int | None = None
    default_collate: bool = True  # batches are made by torch's default_collate
    in_memory: bool = False  # samples are rows of tensors that are in memory already
    random: str | None = None  # why samples are not the same each time; "" proven the same, None not checked
    keeps_workers: bool = False  # its worker processes stay from epoch to epoch
    transforms: bool = False  # random, from a list of transforms: the first ones may not be random
    pictures: bool = False  # its transforms end with those that make tensors of pictures
    resizes: bool = False  # a transform of its pictures resizes them
    changed: str = ""  # what of the data set the script changes between two passes; "" if nothing is seen
    float64: bool = False  # most bytes of its first batch are numbers in float64
    changed_at_first: str = ""  # what it changed before the first pass; "" once a second one has begun

    @property
    def worker_processes(self) -> str:
        """How many, in words."""
        return "1 worker process" if self.workers == 1 else f"{self.workers} worker processes"


@dataclass(frozen=True)
class Optimizer:
    """One of the script's optimizers. ``parameters``: those that get gradients. ``distinct_groups``: how many
    groups would be left if those with equal hyperparameters were merged; ``why_not_merged``: why they cannot
    be, "" if they can. ``kept``: the share of an average of gradients that a step keeps, 0 where there is
    none; ``silent``: how many numbers had a gradient of zero, on the CPU.
    """

    name: str
    parameters: int
    fused: bool
    can_fuse: bool
    why_not: str = ""
    can_foreach: bool = False  # it goes tensor by tensor now, and could update all at once
    devices: tuple[str, ...] = ()
    groups: int = 1
    distinct_groups: int = 1
    why_not_merged: str = ""
    stepped: bool = True  # it has made a step
    kept: float = 0.0
    silent: int = 0


@dataclass(frozen=True)
class Step:
    """One step: from the end of one optimizer step to the end of the next.

    ``evaluations`` (forward passes without gradients), ``restarts`` (loaders that began again) and ``saves``
    (files written by torch or safetensors) fell into it: if there are more than usual, the step's time is
    real but not a training step's.
    """

    seconds: float
    samples: int | None  # from a loader; None if no batch was seen
    evaluations: int
    restarts: int
    phases: Mapping[str, float]
    losses: tuple[float, ...]
    signature: tuple[int, int, int]  # optimizer, forward passes, backward passes
    inputs: int | None = (
        None  # samples that went through the modules, if no loader gave any and the number is clear
    )
    elements: int | None = (
        None  # numbers in the tensors from a loader, padding included; without one, into the modules
    )
    setup_seconds: float = 0.0  # of ``seconds``: techniques' set-up that happens in steps
    saves: int = 0
    new_model: bool = False  # one was called for the first time: another training may begin with it
    last_batches: bool = False  # of a pass: no worker process of the loader begins another meanwhile


STEPS_IN_BACKWARD = "optimizer steps within the backward pass"
PROFILER = "profiler"
"""The leftover that slows down all of a run, not only its passes."""


@dataclass(frozen=True)
class Leftover:
    """A debugging aid that is on while the script trains. ``where``: the line that switched it on, "" if none
    did. ``removable``: without it, the training computes the same.
    """

    name: str
    where: str
    removable: bool


COPIES = (".to()", ".cuda()")
"""Those waits that copy from main memory to another device."""


@dataclass(frozen=True)
class Wait:
    """A line where steps wait: ``calls`` and ``seconds`` per step, on average."""

    what: str  # ".item()", "print", one of COPIES, ...
    where: str
    calls: float
    seconds: float


@dataclass(frozen=True)
class Processors:
    """How many were busy on average, with the training process and with what it started: loaders' worker
    processes. ``waiting``: threads of the training process that could have gone on, and had no processor.
    ``others``: busy with other programs. Both are 0 for one of several ranks.
    """

    own: float
    workers: float
    waiting: float = 0.0
    others: float = 0.0


@dataclass(frozen=True)
class GpuMemory:
    """The most GPU memory that the training's tensors took (``allocated_bytes``), and that torch reserved for
    them (``reserved_bytes``, its cache included); ``retries``: how often the cache was emptied to make
    room; ``available_bytes``: what other programs leave of the GPU's memory, None where that is unknown.
    """

    device: str  # "cuda:0"
    total_bytes: int
    allocated_bytes: int
    reserved_bytes: int
    retries: int
    available_bytes: int | None = None


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
    settling_seconds: float = 0.0  # of what fell into the first warm-up steps besides: an evaluation, a save
    metrics: Mapping[str, float] = field(default_factory=dict)  # the latest that the script reported
    step_said: bool = False  # the script itself marks where a step ends
    steps_are_evaluations: bool = False  # of the closure that an optimizer's step gets
    uses: tuple[str, ...] = ()  # what the script already does: "autocast", "GradScaler", "compile", ...
    autocast: tuple[str, ...] = ()  # precision the script itself lowers its training passes to: "bfloat16"
    leftovers: tuple[Leftover, ...] = ()
    waits: tuple[Wait, ...] = ()  # the longest first
    backends: tuple[str, ...] = ()  # of torch.compile, from other packages
    obstacles: tuple[str, ...] = ()  # why nothing can be switched in this training
    gpu_memory: tuple[GpuMemory, ...] = ()
    tiny_seconds: float | None = None  # what a product with a number below 1.2e-38 takes longer, in one
    # thread; None where nothing is trained on the CPU
    run: WatchedRun | None = None  # where the wall clock went, as far as the run was watched
    padding: float | None = None  # share of sequences' columns that are padding; None: not checked
    operators: int | None = None  # in a backward pass; None: not counted
    pools_apart: bool | None = None  # whether 2x2 numbers that do not overlap are pooled; None: not known
    bias_before_norm: bool | None = None  # whether a batch norm follows a layer's bias; None: not known
    processors: Processors | None = None  # None: not known
    growth: float = 0.0  # a step's time grows as this power of a batch's elements; 0: batches are alike
    trainings: tuple[int, ...] = ()  # steps of each so far, in order
    rest: Step | None = None  # what came after the last step, as in ``ScriptEnded``; None: it went on

    @property
    def seconds_to_steps(self) -> float:
        """From a process's start until its steps are usual ones."""
        return self.start_seconds + self.settling_seconds

    @property
    def training_loaders(self) -> tuple[Loader, ...]:
        """The loaders whose batches reached a training step."""
        return tuple(loader for loader in self.loaders if loader.training)

    @property
    def stepping(self) -> tuple[Optimizer, ...]:
        """The optimizers that made the watched steps, of all that the script created; all, where that is not
        known.
        """
        numbers = sorted({step.signature[0] for step in self.steps})
        known = numbers and numbers[0] >= 0 and numbers[-1] < len(self.optimizers)
        return tuple(self.optimizers[n] for n in numbers) if known and not self.step_said else self.optimizers

    @property
    def evaluated(self) -> bool:
        """Whether an evaluation was seen."""
        return self.run is not None and self.run.part("evaluation").count > 0

    @property
    def first_epoch_alone(self) -> bool:
        """Whether no more than one epoch was seen, and later ones will begin differently: the training's
        loaders start worker processes in the first, and keep them.
        """
        made = [loader for loader in self.training_loaders if loader.workers]
        seen = self.run is not None and not self.run.ended and self.run.epochs == 1
        return seen and bool(made) and all(loader.keeps_workers for loader in made)
