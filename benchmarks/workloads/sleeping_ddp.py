"""DistributedDataParallel whose layers sleep for a set time per sample, so that ranks that share a machine's
processors do not slow each other down: the rest is what the network does.

``sleeping_ddp.py OUT BATCH STEPS``: the ranks divide BATCH. Writes what its steps took to OUT-RANK.json, and,
before, what all-reduces of two sizes take.
"""

import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

LAYERS, WIDTH = 6, 512
FIXED_SECONDS, SAMPLE_SECONDS = 0.006, 0.002  # of a step, over all layers and both passes
BACKWARD = 2 / 3
SIZES = (4 * 2**10, 2**22)  # bytes


def nap(samples, share):
    time.sleep((FIXED_SECONDS + SAMPLE_SECONDS * samples) / LAYERS * share)


class Nap(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        nap(len(x), 1 - BACKWARD)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        nap(len(gradient), BACKWARD)
        return gradient


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return Nap.apply(torch.tanh(self.linear(x)))


def all_reduces():
    found = {}
    for size in SIZES:
        tensor, times = torch.zeros(size // 4), []
        for _ in range(12):
            dist.barrier()
            began = time.perf_counter()
            dist.all_reduce(tensor)
            times.append(time.perf_counter() - began)
        found[size] = sorted(times)[len(times) // 2]
    return found


def main(out, batch, steps):
    torch.set_num_threads(1)
    rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if size > 1:
        dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Sequential(*(Layer() for _ in range(LAYERS)))
    trained = DistributedDataParallel(model, bucket_cap_mb=2) if size > 1 else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs = torch.randn(-(-batch // size), WIDTH)
    links, times = all_reduces() if size > 1 else {}, []
    for _ in range(steps):
        began = time.perf_counter()
        optimizer.zero_grad()
        trained(inputs).square().mean().backward()
        optimizer.step()
        times.append(time.perf_counter() - began)
    with open(f"{out}-{rank}.json", "w") as file:
        json.dump({"steps": times[2:], "all_reduce": links}, file)
    if size > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
