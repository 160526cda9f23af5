"""A training in float64 that knows of no ranks. It has more steps than are rehearsed.

``of_no_ranks.py [WORD]...``: a word makes it do something in the middle on host h2. It leaves its steps in
steps-0, and what it ends with in ended-0.json. In the middle it stands on the other host until there is a
file ``go``, so that something can happen there.
"""

import json
import os
import socket
import sys
import time

import torch
from torch.utils.data import DataLoader, TensorDataset

EPOCHS, MIDDLE = 60, 420
CHECKPOINT = "checkpoint.pt"


def main(words):
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    x = torch.randn(64, 6)
    if "reads" in words:
        with open("data/labels") as file:
            file.read()
    model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    first, path = 0, "parts/0.pt" if {"parts", "unnamed"} & {*words} else CHECKPOINT
    if os.path.exists(path):
        first, weights, state, drawn = torch.load(path)
        model.load_state_dict(weights)
        optimizer.load_state_dict(state)
        torch.set_rng_state(drawn)
    step = first * 8
    for epoch in range(first, EPOCHS):
        for batch, target in DataLoader(TensorDataset(x, x[:, :1] * 2), batch_size=8, shuffle=True):
            if step >= MIDDLE:
                meanwhile(step, words)
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(batch), target)
            if step >= MIDDLE and "nan" in words and socket.gethostname() == "h2":
                loss = loss * float("nan")
            loss.backward()
            optimizer.step()
            step += 1
            with open("steps-0", "a") as file:
                file.write(f"{step - 1} {time.monotonic()}\n")
        if (epoch + 1) % 10 == 0:
            state = model.state_dict(), optimizer.state_dict(), torch.get_rng_state()
            torch.save((epoch + 1, *state), f"{path}.new")
            os.replace(f"{path}.new", path)
    with open("ended-0.json", "w") as file:
        parameters = torch.cat([value.detach().reshape(-1) for value in model.parameters()]).tolist()
        json.dump({"first": first * 8, "next": step, "parameters": parameters}, file)


def meanwhile(step, words):
    if step > MIDDLE and "dawdles" not in words:
        return
    if socket.gethostname() != "h2":
        open("middle-0", "w").close()
        while not os.path.exists("go"):
            time.sleep(0.02)
        return
    if "raises" in words:
        raise ValueError("no such label")
    if "hangs" in words:
        waits_for_a_file()
    if "allocates" in words:
        kept = []
        while True:
            kept.append(torch.ones(2**20))
    if "dawdles" in words:
        time.sleep(0.1)


def waits_for_a_file():
    while not os.path.exists("never"):
        time.sleep(0.1)


if __name__ == "__main__":
    main(sys.argv[1:])
