"""DistributedDataParallel over Gloo; by RANK each rank pins itself to processors, before torch comes."""

import os

rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
processors = sorted(os.sched_getaffinity(0))
if len(processors) >= world_size:  # not bound yet by who started us
    each = len(processors) // world_size
    os.sched_setaffinity(0, processors[rank * each : (rank + 1) * each])
os.environ["OMP_NUM_THREADS"] = str(len(os.sched_getaffinity(0)))
os.environ["KMP_AFFINITY"] = "granularity=fine,compact,1,0"
os.environ["KMP_BLOCKTIME"] = "1"
os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
os.environ.setdefault("MASTER_PORT", "29501")

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
torch.set_num_interop_threads(1)
dist.init_process_group("gloo", init_method="env://", rank=rank, world_size=world_size)

torch.manual_seed(0)
x = torch.randn(256, 10)
dataset = TensorDataset(x, torch.tanh(x[:, :1] * 2 - x[:, 1:2]))
sampler = DistributedSampler(dataset, num_replicas=world_size, rank=rank)
loader = DataLoader(dataset, batch_size=16, sampler=sampler)
model = DDP(nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    sampler.set_epoch(epoch)
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
    dist.all_reduce(loss := loss.detach())
    if rank == 0:
        print(f"epoch {epoch} loss {loss.item() / world_size:.6f}", flush=True)
size = sum(parameter.double().sum() for parameter in model.parameters()).item()
print(f"rank {rank} of {world_size} ends with {size:.6f}", flush=True)
dist.barrier()
dist.destroy_process_group()
