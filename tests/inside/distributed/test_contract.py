"""Every backend does what Gloo does: the same numbers, on every rank."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from hasten.inside.distributed.backends.kernel import kernel
from hasten.inside.distributed.backends.shm import CHUNK_BYTES

from .ranks import Ended, run, run_under_mpi

CHECKS = """
start("gloo")
NAME, CHUNK = os.environ["BACKEND"], int(os.environ["CHUNK"])
group = dist.new_group(backend=NAME)
found = {}

def numbers(count, dtype, of=None):
    of = rank if of is None else of
    return (torch.arange(count) * (of + 1) % 13 + of).to(dtype)

def check(name, mine, theirs):
    found[name] = bool(torch.equal(mine, theirs))

SIZES = {dtype: CHUNK // torch.empty(0, dtype=dtype).element_size()
         for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.uint8)}
OPS = {"sum": dist.ReduceOp.SUM, "max": dist.ReduceOp.MAX, "min": dist.ReduceOp.MIN}
for dtype, slot in SIZES.items():
    counts = {"1": 1, "slot-1": slot - 1, "slot": slot, "slot+1": slot + 1, "many": 5 * slot + 7}
    for label, count in counts.items():
        for op, kind in OPS.items():
            mine, theirs = numbers(count, dtype), numbers(count, dtype)
            dist.all_reduce(mine, kind, group=group)
            dist.all_reduce(theirs, kind)
            check(f"all_reduce {op} {dtype} {label}", mine, theirs)
        mine = numbers(count, dtype)
        dist.broadcast(mine, size - 1, group=group)
        check(f"broadcast {dtype} {label}", mine, numbers(count, dtype, size - 1))
        rows = [torch.empty(count, dtype=dtype) for _ in range(size)]
        dist.all_gather(rows, numbers(count, dtype), group=group)
        expected = torch.cat([numbers(count, dtype, r) for r in range(size)])
        check(f"all_gather {dtype} {label}", torch.cat(rows), expected)

for dtype in (torch.float32, torch.float64):
    mine, theirs = numbers(1000, dtype) / 7, numbers(1000, dtype) / 7
    dist.all_reduce(mine, dist.ReduceOp.AVG, group=group)
    dist.all_reduce(theirs)
    found[f"all_reduce avg {dtype}"] = bool(torch.allclose(mine, theirs / size))

values = numbers(999, torch.float32) / 7
parts = [torch.empty_like(values) for _ in range(size)]
dist.all_reduce(values, group=group)
dist.all_gather(parts, values, group=group)
found["the same bits on every rank"] = all(torch.equal(part, values) for part in parts)

for count in (1, 4099):
    whole = torch.stack([numbers(count, torch.float64) + r for r in range(size)])
    out, expected = torch.empty(count, dtype=torch.float64), whole.clone()
    dist.reduce_scatter_tensor(out, whole.view(-1), group=group)
    dist.all_reduce(expected)
    check(f"reduce_scatter_tensor {count}", out, expected[rank])
    dist.reduce_scatter(out, list(whole.clone()), group=group)
    check(f"reduce_scatter {count}", out, expected[rank])
gathered = torch.empty(size * 5)
dist.all_gather_into_tensor(gathered, torch.full((5,), float(rank)), group=group)
check("all_gather_into_tensor", gathered, torch.arange(size).repeat_interleave(5).float())

into = [torch.empty(3) for _ in range(size)] if rank == 0 else None
dist.gather(torch.full((3,), float(rank)), into, 0, group=group)
found["gather"] = rank != 0 or [int(t[0]) for t in into] == list(range(size))
out = torch.empty(3)
dist.scatter(out, [torch.full((3,), 10.0 + r) for r in range(size)] if rank == 1 else None, 1, group=group)
found["scatter"] = out.tolist() == [10.0 + rank] * 3
one = torch.tensor([float(rank)])
dist.reduce(one, 1, group=group)
found["reduce"] = one.item() == (sum(range(size)) if rank == 1 else rank)
outputs = [torch.empty(r + rank + 1) for r in range(size)]
dist.all_to_all(outputs, [torch.full((rank + r + 1,), 10.0 * rank + r) for r in range(size)], group=group)
found["all_to_all"] = all(bool((o == 10.0 * r + rank).all()) for r, o in enumerate(outputs))

objects = [None] * size
dist.all_gather_object(objects, {"rank": rank, "text": "x" * rank}, group=group)
found["all_gather_object"] = objects == [{"rank": r, "text": "x" * r} for r in range(size)]
objects = [("tuple", rank), None]
dist.broadcast_object_list(objects, 0, group=group)
found["broadcast_object_list"] = objects == [("tuple", 0), None]
dist.barrier(group=group)

transposed = numbers(12, torch.float32).view(3, 4).t()
dist.all_reduce(transposed, group=group)
expected = sum(numbers(12, torch.float32, r) for r in range(size)).view(3, 4).t()
check("not contiguous", transposed, expected)
work = dist.all_reduce(values, group=group, async_op=True)
found["async"] = work.wait() is not None and work.is_completed()
empty = torch.empty(0)
dist.all_reduce(empty, group=group)
found["no elements"] = True
dist.all_reduce(scalar := torch.tensor(float(rank)), group=group)
found["a scalar"] = scalar.item() == sum(range(size))

half = dist.new_group([0, size - 1], backend=NAME)
if rank in (0, size - 1):
    dist.all_reduce(one := torch.tensor([1.0 + rank]), group=half)
    found["subgroup"] = one.item() == (1.0 + size if size > 1 else 1.0)
alone = dist.new_group([rank], backend=NAME, use_local_synchronization=True)
dist.all_reduce(one := torch.tensor([5.0]), dist.ReduceOp.AVG, group=alone)
found["a group of one"] = one.item() == 5.0

def both(name, make):
    check(name, make(group), make(None))

def all_to_all_single(where):
    out = torch.empty(2 * size)
    dist.all_to_all_single(out, numbers(2 * size, torch.float32), group=where)
    return out

def uneven(where):
    given, taken = [r + 1 for r in range(size)], [rank + 1] * size
    out = torch.empty(sum(taken), 3)
    rows = torch.arange(3.0 * sum(given)).view(-1, 3) + 100 * rank
    dist.all_to_all_single(out, rows, taken, given, group=where)
    return out

def one_way(where):
    tensor = torch.full((3, 2), float(rank))
    if rank == 0:
        dist.send(tensor, size - 1, group=where, tag=5)
    elif rank == size - 1:
        dist.recv(tensor, 0, group=where, tag=5)
    return tensor

def ring(where, kind=torch.float32):
    out, given = torch.empty(4, dtype=kind), torch.full((4,), rank, dtype=kind)
    works = [dist.isend(given, (rank + 1) % size, group=where)]
    works.append(dist.irecv(out, (rank - 1) % size, group=where))
    for work in works:
        work.wait()
    return out

def crossed(where):
    # tags decide, not the order
    outs = torch.zeros(2, 4)
    if rank == 0:
        works = [dist.isend(torch.full((4,), float(tag)), 1, group=where, tag=tag) for tag in (1, 2)]
    elif rank == 1:
        works = [dist.irecv(outs[tag - 1], 0, group=where, tag=tag) for tag in (2, 1)]
    else:
        works = []
    for work in works:
        work.wait()
    return outs

def batched(where):
    out = torch.empty(4)
    send = dist.P2POp(dist.isend, torch.full((4,), float(rank)), (rank + 1) % size, group=where)
    for work in dist.batch_isend_irecv([send, dist.P2POp(dist.irecv, out, (rank - 1) % size, group=where)]):
        work.wait()
    return out

both("all_to_all_single", all_to_all_single)
both("all_to_all_single, uneven", uneven)
both("send and recv", one_way)
both("isend and irecv in a ring", ring)
both("isend and irecv of whole numbers", lambda where: ring(where, torch.int64))
both("isend and irecv, crossed", crossed)
both("batch_isend_irecv", batched)
try:
    dist.recv(torch.empty(1), group=group)
    found["recv from any is refused"] = False
except NotImplementedError as error:
    found["recv from any is refused"] = "gloo" in str(error) and NAME in str(error)

torch.manual_seed(0)
linear = torch.nn.Linear
nets = [torch.nn.Sequential(linear(64, 300), torch.nn.ReLU(), linear(300, 9)) for _ in range(2)]
nets[1].load_state_dict(nets[0].state_dict())
for net, where in zip(nets, (group, None)):
    ddp = torch.nn.parallel.DistributedDataParallel(net, process_group=where, bucket_cap_mb=0.05)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(rank)
    for _ in range(5):
        optimizer.zero_grad()
        ddp(torch.randn(8, 64, generator=generator)).square().mean().backward()
        optimizer.step()
flat = [torch.cat([p.detach().view(-1) for p in net.parameters()]) for net in nets]
found["DDP trains as with gloo"] = bool(torch.allclose(*flat, rtol=0, atol=1e-6))
rows = [torch.empty_like(flat[0]) for _ in range(size)]
dist.all_gather(rows, flat[0], group=group)
found["DDP keeps all ranks equal"] = all(torch.equal(row, flat[0]) for row in rows)
print(json.dumps(found))
dist.barrier()
dist.destroy_process_group()
"""

LIBRARIES = """
from torch import nn
import torch.distributed._functional_collectives as functional
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

start("gloo")
groups = {"mine": dist.new_group(backend=os.environ["BACKEND"]), "theirs": dist.new_group(backend="gloo")}
DDP = nn.parallel.DistributedDataParallel

def net():
    torch.manual_seed(0)
    made = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 4))
    torch.manual_seed(rank)
    return made

def train(model, steps=2):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(4, 6)).square().mean().backward()
        optimizer.step()

def hooked(name, group):
    model = DDP(net(), process_group=group)
    model.register_comm_hook(group, getattr(default_hooks, name))
    train(model)
    return model.module[0].weight.detach()

def compiled(group, over, backend="aot_eager"):
    torch._dynamo.reset()
    torch.manual_seed(0)
    made = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4))
    inside = made if over else torch.compile(made, backend=backend)
    model = DDP(inside, process_group=group)
    torch.manual_seed(rank)
    train(torch.compile(model, backend=backend) if over else model, 4)
    return torch.cat([p.detach().reshape(-1) for p in made.parameters()] + [made[1].running_mean])

def compiled_gather(group):
    def ask(x):
        rows = [torch.empty_like(x) for _ in range(size)]
        dist.all_gather(rows, x, group=group)
        return torch.cat(rows) * 2
    torch._dynamo.reset()
    return torch.compile(ask, backend="eager")(torch.arange(3.0) + rank)

def monitored(group):
    dist.monitored_barrier(group)
    dist.monitored_barrier(group, timeout=datetime.timedelta(seconds=30), wait_all_ranks=True)
    return torch.ones(1)

def fsdp2(group):
    model = net()
    fully_shard(model[0], mesh=DeviceMesh.from_group(group, "cpu"))
    fully_shard(model, mesh=DeviceMesh.from_group(group, "cpu"))
    train(model)
    return model[0].weight.full_tensor().detach()

def tensor_parallel(group):
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    model = parallelize_module(net(), DeviceMesh.from_group(group, "cpu"), plan)
    model(torch.ones(3, 6)).sum().backward()
    return model[0].weight.grad.full_tensor()

def functionals(group):
    ones = torch.arange(2.0 * size) + rank
    return torch.cat([functional.wait_tensor(functional.all_reduce(ones, "sum", group)),
                      functional.wait_tensor(functional.all_to_all_single(ones, None, None, group))])

CASES = {
    "the allreduce hook": lambda group: hooked("allreduce_hook", group),
    "the fp16 hook": lambda group: hooked("fp16_compress_hook", group),
    "FSDP2": fsdp2,
    "tensor parallel": tensor_parallel,
    "torch.compile over DDP": lambda group: compiled(group, over=True),
    "torch.compile inside DDP": lambda group: compiled(group, over=False),
    "a collective in what is compiled": compiled_gather,
    "monitored_barrier": monitored,
    "functional collectives": functionals,
}
found = {}
for name, make in CASES.items():
    made = {which: make(group) for which, group in groups.items()}
    rounding = 1e-3 if "fp16" in name and size > 2 else 1e-6  # Gloo adds in float16
    found[name] = bool(torch.allclose(made["mine"], made["theirs"], rtol=0, atol=rounding))
print(json.dumps(found), flush=True)
dist.barrier()
dist.destroy_process_group()
"""

NO_KERNEL = {"CC": "/no/compiler"}


@dataclass(frozen=True)
class Way:
    """A backend in one of its forms."""

    name: str
    size: int
    kernel: bool = True

    def __str__(self) -> str:
        return f"{self.name} of {self.size}{'' if self.kernel else ' without a compiler'}"


WAYS = [
    *(Way("shm", 2), Way("shm", 4), Way("shm", 3, kernel=False)),
    *(Way(name, size) for name in ("mpi4py", "ccl") for size in (2, 4)),
]


ALWAYS = ("shm of 3 without a compiler", "mpi4py of 2", "ccl of 2")


def why_not(way: Way) -> str:
    """What it needs and this machine lacks."""
    if way.name == "shm" and way.kernel and kernel() is None:
        return "no C compiler is installed here"
    if way.name == "mpi4py" and not (find_spec("mpi4py") and shutil.which("mpirun")):
        return "mpi4py or mpirun is not installed here"
    if way.name == "ccl" and not Path(sys.prefix, "lib", "libccl.so.2").exists():
        return "oneCCL is not installed here"
    return ""


def told(rank: Ended) -> dict[str, bool]:
    """By a rank in its last line: Gloo prints some of its own in torch 2.9."""
    found: dict[str, bool] = json.loads(rank.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize(
    "way",
    [way if str(way) in ALWAYS else pytest.param(way, marks=pytest.mark.thorough) for way in WAYS],
    ids=str,
)
def test_it_does_what_gloo_does(way: Way, tmp_path: Path) -> None:
    if missing := why_not(way):
        pytest.skip(missing)
    more = {} if way.kernel else {**NO_KERNEL, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    start = run_under_mpi if way.name == "mpi4py" else run
    done = start(tmp_path, CHECKS, way.size, BACKEND=way.name, CHUNK=str(CHUNK_BYTES), **more)
    for rank, one in enumerate(done):
        assert one.code == 0, f"rank {rank}: {one.stderr[-2000:]}"
        found = told(one)
        assert len(found) > 176
        assert [name for name, right in found.items() if not right] == [], f"rank {rank}"


@pytest.mark.thorough
@pytest.mark.attack("truth")
@pytest.mark.parametrize("way", [way for way in WAYS if way.size <= 3], ids=str)
def test_what_libraries_make_of_a_group_works_as_over_gloo(way: Way, tmp_path: Path) -> None:
    if missing := why_not(way):
        pytest.skip(missing)
    start = run_under_mpi if way.name == "mpi4py" else run
    more = {} if way.kernel else {**NO_KERNEL, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    for one in start(tmp_path, LIBRARIES, way.size, BACKEND=way.name, **more):
        assert one.code == 0, one.stderr[-2000:]
        found = told(one)
        assert [name for name, right in found.items() if not right] == []
        assert len(found) == 9
