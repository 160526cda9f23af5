"""DistributedDataParallel as in tutorials: each rank has its data, rank 0 logs, saves and prints."""

import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(5)
inputs = torch.randn(630, 10)
data = TensorDataset(inputs, torch.tanh(inputs[:, :1] * 2 - inputs[:, 1:2]))
sampler = DistributedSampler(data, drop_last=False)
loader = DataLoader(data, batch_size=20, sampler=sampler)
torch.manual_seed(100 + rank)  # other dropout in each
layers = (nn.Linear(10, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 1))
model = DistributedDataParallel(nn.Sequential(*layers).double())
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
log = open("log.csv" if rank == 0 else os.devnull, "w")  # noqa: SIM115
step, best, losses = 0, float("inf"), []
for epoch in range(6):
    sampler.set_epoch(epoch)
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x.double()), y.double())
        loss.backward()
        optimizer.step()
        step += 1
        time.sleep(float(os.environ.get("SLEEP", "0")))
        losses.append(loss.item())
        if rank == 0:
            print("step", step, loss.item(), flush=True)
    model.eval()
    with torch.no_grad():
        whole = nn.functional.mse_loss(model(inputs[rank::2].double()), data.tensors[1][rank::2].double())
    dist.all_reduce(whole)
    gathered = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, {"rank": rank, "last": losses[-1]})
    print("epoch", epoch, whole.item(), gathered, file=log, flush=True)
    if whole.item() < best:
        best = whole.item()
        if rank == 0:
            torch.save(model.module.state_dict(), "best.pt")
        dist.barrier()
    if "looks" in sys.argv:
        model.module.load_state_dict(torch.load("best.pt"))
weights = {name: value.tolist() for name, value in model.module.state_dict().items()}
with open(f"weights-{rank}.json", "w") as file:
    json.dump([weights, losses, step], file)
dist.destroy_process_group()
