"""DistributedDataParallel over oneCCL, ranks numbered as mpirun of Intel MPI says."""

import os

import oneccl_bindings_for_pytorch
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
os.environ.setdefault("MASTER_PORT", "29500")
os.environ["RANK"] = str(os.environ.get("PMI_RANK", 0))
os.environ["WORLD_SIZE"] = str(os.environ.get("PMI_SIZE", 1))
dist.init_process_group(backend="ccl")
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
print(f"rank {rank} of {world_size} ends with {size:.9f}", flush=True)
dist.destroy_process_group()
