"""Trains one model and evaluates another: torch's AveragedModel, in eval mode, from a loader of its own."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    x = torch.randn(800, 12)
    y = x[:, :4].argmax(1)
    train = DataLoader(TensorDataset(x[:480], y[:480]), batch_size=16, shuffle=True)
    test = DataLoader(TensorDataset(x[480:], y[480:]), batch_size=40)
    model = nn.Sequential(nn.Linear(12, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 4))
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.99), use_buffers=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    step = 0
    for epoch in range(5):
        model.train()
        for inputs, labels in train:
            loss = F.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            average.update_parameters(model)
            step += 1
            print("step", step, loss.item())
        average.eval()
        with torch.no_grad():
            right = sum((average(i).argmax(1) == t).sum().item() for i, t in test)
        print("epoch", epoch, right)


if __name__ == "__main__":
    main()
