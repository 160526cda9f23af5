"""DistributedDataParallel over Gloo, started by torchrun: each rank reads which one it is."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    rank = int(os.environ["RANK"])
    local_rank = int(os.environ["LOCAL_RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend="gloo")
    assert (rank, world_size) == (dist.get_rank(), dist.get_world_size())

    torch.manual_seed(0)
    x = torch.randn(256, 10)
    dataset = TensorDataset(x, torch.tanh(x[:, :1] * 2 - x[:, 1:2]))
    sampler = DistributedSampler(dataset, shuffle=True)
    loader = DataLoader(dataset, batch_size=16, sampler=sampler)

    model = DDP(nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        total = torch.zeros(1)
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(inputs), targets)
            loss.backward()
            optimizer.step()
            total += loss.detach()
        dist.all_reduce(total)
        if rank == 0:
            print(f"epoch {epoch} loss {total.item() / len(loader) / world_size:.6f}", flush=True)
    size = sum(parameter.double().sum() for parameter in model.parameters()).item()
    print(f"rank {rank} local {local_rank} of {world_size} ends with {size:.9f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
