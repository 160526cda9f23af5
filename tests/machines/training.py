"""DistributedDataParallel in float64, one process or several: what it ends with is the same to rounding.

``training.py OUT [WORD]...``: each rank leaves OUT-RANK.json. With the word ``dies`` rank 1 is killed once in
the middle, with ``loses`` all stand there until there is a file ``lost``, and what begins anew goes on from a
checkpoint; with ``waits`` it does not end by itself.
"""

import json
import os
import signal
import socket
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS, BATCH = 8, 32
CHECKPOINT, DIED = "checkpoint.pt", "died"


def main(out, words):
    torch.set_default_dtype(torch.float64)
    rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if size > 1:
        dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 10))
    trained = DistributedDataParallel(model) if size > 1 else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    first = 0
    if saves(words) and os.path.exists(CHECKPOINT):
        first, weights, state = torch.load(CHECKPOINT)
        model.load_state_dict(weights)
        optimizer.load_state_dict(state)
    for step in range(first, STEPS):
        drawn = torch.Generator().manual_seed(step)
        inputs = torch.randn(BATCH, 1, 8, 8, generator=drawn)
        targets = torch.randint(0, 10, (BATCH,), generator=drawn)
        share = slice(rank * BATCH // size, (rank + 1) * BATCH // size)
        optimizer.zero_grad()
        nn.functional.cross_entropy(trained(inputs[share]), targets[share]).backward()
        optimizer.step()
        if saves(words):
            save(rank, (step + 1, model.state_dict(), optimizer.state_dict()))
        if step + 1 == STEPS // 2:
            halfway(rank, words)
    if "waits" in words:
        open(f"{out}-{rank}.waits", "w").close()
        time.sleep(600)
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "GLOO_SOCKET_IFNAME")
    told = {name: os.environ.get(name) for name in (*names, "OMP_NUM_THREADS", "MADE_UP_TOKEN")}
    told["hidden"] = [name for name in os.environ if name.startswith("HASTEN")]
    told["host"], told["words"], told["first_step"] = socket.gethostname(), words, first
    told["timeout_seconds"] = timeout_seconds() if size > 1 else None
    told["fused"] = bool(optimizer.defaults.get("fused") or optimizer.param_groups[0].get("fused"))
    told["parameters"] = torch.cat([value.detach().reshape(-1) for value in model.parameters()]).tolist()
    with open(f"{out}-{rank}.json", "w") as file:
        json.dump(told, file)
    if size > 1:
        dist.destroy_process_group()


def saves(words):
    return "dies" in words or "loses" in words


def save(rank, state):
    if rank == 0:
        torch.save(state, f"{CHECKPOINT}.new")
        os.replace(f"{CHECKPOINT}.new", CHECKPOINT)
    if dist.is_initialized():
        dist.barrier()


def halfway(rank, words):
    if "dies" in words and rank == 1 and not os.path.exists(DIED):
        open(DIED, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    if "loses" in words:
        open("halfway", "w").close()
        while not os.path.exists("lost"):
            time.sleep(0.05)


def timeout_seconds():
    group = dist.distributed_c10d._get_default_group()
    return group._get_backend(torch.device("cpu")).options._timeout.seconds


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
