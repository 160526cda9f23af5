"""DistributedDataParallel that notes how long its steps take, however its ranks were started.

``ddp_steps.py OUT STEPS``: rank 0 leaves ``{"first": seconds since the epoch, "steps": [seconds, ...]}``.
"""

import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
SIZES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")


def told(names):
    return int(next(os.environ[name] for name in names if name in os.environ))


def main(out, count):
    rank, size = told(RANKS), told(SIZES)
    dist.init_process_group("gloo", rank=rank, world_size=size)
    torch.manual_seed(rank)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(800, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip
    trained = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.01, momentum=0.9)
    inputs, targets = torch.randn(32, 1, 28, 28), torch.randint(0, 10, (32,))
    seconds, first = [], 0.0
    for _ in range(count):
        began = time.perf_counter()
        optimizer.zero_grad()
        nn.functional.cross_entropy(trained(inputs), targets).backward()
        optimizer.step()
        seconds.append(time.perf_counter() - began)
        first = first or time.time()
    if rank == 0:
        with open(out, "w") as file:
            json.dump({"first": first, "steps": seconds}, file)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
