"""DistributedDataParallel over Gloo in float64, with checkpoints that it takes up by itself.

``of_its_own_ranks.py [WORD]...``: a word makes the last rank do something in the middle. Each rank leaves its
steps in steps-RANK, and what it ends with in ended-RANK.json. In the middle all stand until there is a file
``go``, so that something can happen there.
"""

import json
import os
import signal
import socket
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS, MIDDLE, EVERY, BATCH = 24, 12, 5, 32
CHECKPOINT = "checkpoint.pt"


def main(words):
    torch.set_default_dtype(torch.float64)
    rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if size > 1:
        dist.init_process_group("gloo")
    asked_to_end = []
    if "saves" in words:
        signal.signal(signal.SIGTERM, lambda *_: asked_to_end.append(True))
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.Tanh(), torch.nn.Linear(32, 10))
    trained = DistributedDataParallel(model) if size > 1 else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    first, weights, state = taken_up(words, rank)
    if weights is not None:
        model.load_state_dict(weights)
        optimizer.load_state_dict(state)
    for step in range(first, STEPS):
        if step == MIDDLE:
            meanwhile(rank, rank == size - 1, words, asked_to_end)
        drawn = torch.Generator().manual_seed(step)
        inputs, targets = (
            torch.randn(BATCH, 64, generator=drawn),
            torch.randint(10, (BATCH,), generator=drawn),
        )
        share = slice(rank * BATCH // size, (rank + 1) * BATCH // size)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(trained(inputs[share]), targets[share])
        if step >= MIDDLE and "nan" in words and rank == size - 1:
            loss = loss * float("nan")
        loss.backward()
        optimizer.step()
        with open(f"steps-{rank}", "a") as file:
            file.write(f"{step} {time.monotonic()}\n")
        if step >= MIDDLE:
            time.sleep(0.05)
        ends = ending(asked_to_end, size) if "saves" in words else False
        if ends or ((step + 1) % EVERY == 0 and not ("older" in words and rank and step + 1 > EVERY)):
            save(rank, words, (step + 1, model.state_dict(), optimizer.state_dict()))
        if ends:
            break
    told = {"host": socket.gethostname(), "first": first, "next": step + 1, "size": size}
    told["parameters"] = torch.cat([value.detach().reshape(-1) for value in model.parameters()]).tolist()
    with open(f"ended-{rank}.json", "w") as file:
        json.dump(told, file)
    if size > 1:
        dist.destroy_process_group()


def meanwhile(rank, last, words, asked_to_end):
    if os.path.exists("happened"):
        return
    open(f"middle-{rank}", "w").close()
    while not os.path.exists("go") and not asked_to_end:
        time.sleep(0.02)
    if not last:
        return
    if "raises" in words:
        open("happened", "w").close()
        raise ValueError("no such label")
    if "hangs" in words:
        waits_for_a_file()
    if "allocates" in words:
        kept = []
        while True:
            kept.append(torch.ones(2**20))
    if "reads" in words:
        with open("data/labels") as file:
            file.read()
    if "dawdles" in words:
        time.sleep(3)


def waits_for_a_file():
    while not os.path.exists("never"):
        time.sleep(0.1)


def ending(asked_to_end, size):
    """Whether any rank was asked to end."""
    asked = torch.tensor([float(bool(asked_to_end))])
    if size > 1:
        dist.all_reduce(asked)
    return bool(asked.item())


def of(words, rank):
    """Where a rank's checkpoint is: of one for all, or of its own where each host keeps its part."""
    return f"parts/{rank}.pt" if "parts" in words else CHECKPOINT


def taken_up(words, rank):
    path = of(words, rank)
    return torch.load(path) if os.path.exists(path) else (0, None, None)


def save(rank, words, state):
    if rank == 0 or "parts" in words:
        path = of(words, rank)
        torch.save(state, f"{path}.new")
        os.replace(f"{path}.new", path)
    if dist.is_initialized() and "older" not in words:
        dist.barrier()


if __name__ == "__main__":
    main(sys.argv[1:])
