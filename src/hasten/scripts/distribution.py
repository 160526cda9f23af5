"""Finds out how a script trains in several processes, without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..errors import UsageError
from ..records.diagnosis import Distribution
from .reading import Part, full_name, imported_names, parts_of
from .workspace import Script

_VARIABLES = {
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
    *("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    *("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    *("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
}
_SPAWNS = {"torch.multiprocessing.spawn", "torch.multiprocessing.start_processes"}
_PROCESSES = {"torch.multiprocessing.Process", "multiprocessing.Process"}  # may be for something else
_OF_A_RANK = {  # by the last part of the name: makes a process group, or needs one
    "init_process_group", "init_device_mesh", "DistributedDataParallel", "FullyShardedDataParallel",
    "fully_shard",
}  # fmt: skip
_LIBRARIES = {"accelerate.Accelerator", "deepspeed.initialize"}  # read a launcher's variables
_TRAINERS = {"transformers", "trl"}  # whose classes named ...Trainer do so, too
_LIGHTNING = {"Trainer", "Fabric"}
_CCL = {"oneccl_bindings_for_pytorch", "torch_ccl"}


def distribution_of(script: Script) -> Distribution:
    """What the script and the modules next to it say. Unreadable ones say nothing."""
    seen = _Seen()
    try:
        for part in parts_of(script):
            seen.look_at(part)
    except UsageError:  # perhaps a module that is never imported
        pass
    return seen.found()


def why_not_shared(found: Distribution) -> str:
    """Why hasten cannot divide such a script's training among its own processes; "" if it can."""
    if found.kind == "ranks":
        return f"{found.sign} makes the script one of several ranks by itself"
    return f"{found.sign} starts ranks of the script's own" if found.kind else ""


@dataclass
class _Seen:
    ranks: list[str] = field(default_factory=list)
    spawns: list[str] = field(default_factory=list)
    processes: list[str] = field(default_factory=list)
    numbers_ranks: bool = False  # passes its rank to a process group, which a launched script need not do
    data_parallel: list[str] = field(default_factory=list)
    backends: dict[str, None] = field(default_factory=dict)
    reads: dict[str, str] = field(default_factory=dict)

    def look_at(self, part: Part) -> None:
        names = dict(imported_names(part.tree))
        for node in ast.walk(part.tree):
            where = _place(part, node)
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                self._look_at_import(node, where)
            elif isinstance(node, ast.ClassDef):
                self._look_at_class(node, names, where)
            elif isinstance(node, ast.Call):
                self._look_at_call(node, full_name(node.func, names), where)
            for variable in _read_from_environment(node):
                self.reads.setdefault(variable, where)

    def found(self) -> Distribution:
        reads = tuple(name for name in self.reads if name in _VARIABLES)
        signs = [*self.ranks, *(self.reads[name] for name in reads)]
        launched = any(name.endswith("RANK") or name.endswith("PROCID") for name in reads)
        kind = "ranks" if signs else ""
        spawns = [*self.spawns, *(self.processes if self.numbers_ranks else ())]
        if spawns and signs and not launched:
            kind, signs = "spawns", spawns
        return Distribution(
            kind=kind,
            sign=next(iter(signs), ""),
            backends=tuple(self.backends),
            reads=reads,
            data_parallel=next(iter(self.data_parallel), ""),
        )

    def _look_at_import(self, node: ast.Import | ast.ImportFrom, where: str) -> None:
        modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
        for module in modules:
            if module.partition(".")[0] in _CCL:
                self.ranks.append(where)
                self.backends["ccl"] = None
            elif module.partition(".")[0] == "mpi4py":
                self.ranks.append(where)
                self.backends["mpi"] = None

    def _look_at_class(self, made: ast.ClassDef, names: dict[str, str], where: str) -> None:
        if any(_is_trainer(full_name(base, names)) for base in made.bases):
            self.ranks.append(where)

    def _look_at_call(self, call: ast.Call, name: str, where: str) -> None:
        last = name.rpartition(".")[2]
        library = name in _LIBRARIES or _is_trainer(name)
        if last in _OF_A_RANK or library or _is_lightning(call, name):
            self.ranks.append(where)
        if last == "init_process_group":
            told = {keyword.arg: keyword.value for keyword in call.keywords}
            self.numbers_ranks |= "rank" in told
            backend = call.args[0] if call.args else told.get("backend")
            if isinstance(backend, ast.Constant) and isinstance(backend.value, str):
                self.backends[backend.value.lower()] = None
        if name in _SPAWNS:
            self.spawns.append(where)
        if name in _PROCESSES:
            self.processes.append(where)
        if name in ("torch.nn.DataParallel", "torch.nn.parallel.DataParallel"):
            self.data_parallel.append(where)


def _place(part: Part, node: ast.AST) -> str:
    line = getattr(node, "lineno", 1)
    return f"{part.name}:{line}: {part.source.splitlines()[line - 1].strip()}" if part.source else part.name


def _is_trainer(name: str) -> bool:
    return name.partition(".")[0] in _TRAINERS and name.endswith("Trainer")


def _is_lightning(call: ast.Call, name: str) -> bool:
    """Lightning trains in one process unless told otherwise."""
    module, _, last = name.rpartition(".")
    if last not in _LIGHTNING or module.partition(".")[0] not in ("lightning", "pytorch_lightning"):
        return False
    told = {keyword.arg: keyword.value for keyword in call.keywords}
    devices = told.get("devices")
    alone = isinstance(devices, ast.Constant) and devices.value in (1, "1", "auto")
    return "strategy" in told or (devices is not None and not alone)


def _read_from_environment(node: ast.AST) -> Iterator[str]:
    """``os.environ["RANK"]``, ``os.environ.get("RANK")``, ``os.getenv("RANK")``, ``"RANK" in os.environ``."""
    asked: ast.expr | None = None
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        asked = node.slice if ast.unparse(node.value).endswith("environ") else None
    elif isinstance(node, ast.Call) and node.args:
        function = ast.unparse(node.func)
        asked = node.args[0] if function.endswith(("environ.get", "getenv")) else None
    elif isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
        asked = node.left if ast.unparse(node.comparators[0]).endswith("environ") else None
    if isinstance(asked, ast.Constant) and isinstance(asked.value, str):
        yield asked.value
