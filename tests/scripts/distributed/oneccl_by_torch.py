"""DistributedDataParallel over oneCCL, started by torchrun: oneCCL is told that torch is its launcher."""

import os

os.environ["CCL_PROCESS_LAUNCHER"] = "torch"
os.environ["CCL_WORKER_COUNT"] = "1"
os.environ["CCL_LOCAL_RANK"] = os.environ.get("LOCAL_RANK", "0")
os.environ["CCL_LOCAL_SIZE"] = os.environ.get("LOCAL_WORLD_SIZE", "1")

import oneccl_bindings_for_pytorch
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
dist.init_process_group(backend="ccl", init_method="env://", rank=rank, world_size=world_size)

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
    dist.all_reduce(mean := loss.detach())
if rank == 0:
    print(f"loss {mean.item() / world_size:.6f}", flush=True)
size = sum(parameter.double().sum() for parameter in model.parameters()).item()
print(f"rank {rank} of {world_size} ends with {size:.6f}", flush=True)
dist.barrier()
dist.destroy_process_group()
