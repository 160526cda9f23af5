"""Data parallel by hand over MPI, started by mpirun: gradients are averaged after every backward pass."""

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("mpi")
rank, world_size = dist.get_rank(), dist.get_world_size()


def average_gradients(model):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM)
        parameter.grad /= world_size


torch.manual_seed(1234)
x = torch.randn(256, 10)
y = torch.tanh(x[:, :1] * 2 - x[:, 1:2])
shard = slice(rank * len(x) // world_size, (rank + 1) * len(x) // world_size)
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for inputs, targets in zip(x[shard].split(16), y[shard].split(16)):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        average_gradients(model)
        optimizer.step()
    if rank == 0:
        print(f"epoch {epoch} loss {loss.item():.6f}", flush=True)
size = sum(parameter.double().sum() for parameter in model.parameters()).item()
print(f"rank {rank} of {world_size} ends with {size:.9f}", flush=True)
dist.destroy_process_group()
