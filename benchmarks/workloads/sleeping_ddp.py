"""DistributedDataParallel whose layers sleep for a set time per sample, so that ranks that share a machine's
processors do not slow each other down: the rest is what the network does.

``sleeping_ddp.py OUT JSON``: the ranks divide a batch; JSON says what is trained, and how long layers sleep.
Writes to OUT-RANK.json what its steps took and, before, what all-reduces of two sizes take, in seconds.
"""

import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WORK = json.loads(sys.argv[2])
SIZES = {4 * 2**10: 12, 2**24: 5}  # bytes: times


def nap(samples, share):
    time.sleep((WORK["fixed_seconds"] + WORK["sample_seconds"] * samples) / WORK["layers"] * share)


class Nap(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        nap(len(x), 1 - WORK["backward"])
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        nap(len(gradient), WORK["backward"])
        return gradient


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(WORK["width"], WORK["width"])

    def forward(self, x):
        return Nap.apply(torch.tanh(self.linear(x)))


def all_reduces():
    found = {}
    for size, count in SIZES.items():
        tensor, times = torch.zeros(size // 4), []
        for _ in range(count):
            dist.barrier()
            began = time.perf_counter()
            dist.all_reduce(tensor)
            times.append(time.perf_counter() - began)
        found[size] = sorted(times)[len(times) // 2]
    return found


def main(out):
    torch.set_num_threads(1)
    rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if size > 1:
        dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Sequential(*(Layer() for _ in range(WORK["layers"])))
    trained = DistributedDataParallel(model, bucket_cap_mb=WORK["bucket_mb"]) if size > 1 else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs = torch.randn(-(-WORK["batch"] // size), WORK["width"])
    links, times = all_reduces() if size > 1 else {}, []
    for _ in range(WORK["steps"]):
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
    main(sys.argv[1])
