"""Saves model and optimizer after each epoch of 40 steps, 200 MB in all."""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=20)
arguments = parser.parse_args()
torch.manual_seed(0)
words, width = 32_000, 512
model = nn.Sequential(
    nn.Embedding(words, width), nn.Flatten(), nn.Linear(8 * width, 64), nn.ReLU(), nn.Linear(64, 2)
)
optimizer = torch.optim.Adam(model.parameters())
texts = torch.randint(words, (40 * 32, 8))
labels = (texts[:, 0] > words // 2).long()
for epoch in range(arguments.epochs):
    for chosen in torch.randperm(len(texts)).split(32):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(texts[chosen]), labels[chosen])
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.4f}")
    state = {"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(state, "last.pt")
