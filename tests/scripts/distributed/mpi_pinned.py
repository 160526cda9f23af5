"""DistributedDataParallel over MPI, started by mpirun: each rank pins itself by its local number."""

import os

local_rank = int(os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK", os.environ.get("MPI_LOCALRANKID", "0")))
local_size = int(os.environ.get("OMPI_COMM_WORLD_LOCAL_SIZE", os.environ.get("MPI_LOCALNRANKS", "1")))
processors = sorted(os.sched_getaffinity(0))
if len(processors) >= local_size:
    each = len(processors) // local_size
    os.sched_setaffinity(0, processors[local_rank * each : (local_rank + 1) * each])

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("mpi")
rank, world_size = dist.get_rank(), dist.get_world_size()

torch.manual_seed(0)
model = DDP(nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(100 + rank)
for step in range(10):
    inputs = torch.randn(16, 10)
    loss = nn.functional.mse_loss(model(inputs), torch.tanh(inputs[:, :1]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
if rank == 0:
    print(f"loss {loss.item():.6f}", flush=True)
size = sum(parameter.double().sum() for parameter in model.parameters()).item()
print(f"rank {rank} of {world_size} ends with {size:.6f}", flush=True)
dist.destroy_process_group()
