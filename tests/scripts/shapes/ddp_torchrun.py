"""DistributedDataParallel as torchrun starts it; without torchrun, one process by itself."""

import os
import socket

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def setup():
    os.environ.setdefault("RANK", "0")
    os.environ.setdefault("LOCAL_RANK", "0")
    os.environ.setdefault("WORLD_SIZE", "1")
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    if "MASTER_PORT" not in os.environ:
        os.environ["MASTER_PORT"] = str(free_port())
    dist.init_process_group("gloo")


def main():
    setup()
    torch.manual_seed(0)
    x = torch.randn(1200, 10)
    dataset = TensorDataset(x, torch.tanh(x[:, :1] * 2 - x[:, 1:2]))
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=30, sampler=sampler)

    model = DistributedDataParallel(nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = 0
    for epoch in range(4):
        sampler.set_epoch(epoch)
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(inputs), targets)
            loss.backward()
            optimizer.step()
            step += 1
            if dist.get_rank() == 0:
                print("step", step, loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
