"""Each layer has an optimizer of its own and learns from two forward passes; nobody calls the layers."""

from itertools import pairwise

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class Layer(nn.Linear):
    def __init__(self, ins, outs):
        super().__init__(ins, outs)
        self.relu = torch.nn.ReLU()
        self.opt = torch.optim.Adam(self.parameters(), lr=0.03)
        self.threshold, self.steps = 2.0, 60

    def forward(self, x):
        direction = x / (x.norm(2, 1, keepdim=True) + 1e-4)
        return torch.relu(torch.mm(direction, self.weight.T) + self.bias.unsqueeze(0))

    def learn(self, positive, negative, done):
        for step in range(1, self.steps + 1):
            good = self.forward(positive).pow(2).mean(1)
            bad = self.forward(negative).pow(2).mean(1)
            loss = nn.functional.softplus(torch.cat([self.threshold - good, bad - self.threshold])).mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            print("step", done + step, loss.item())
        return self.forward(positive).detach(), self.forward(negative).detach()


class Net(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.layers = [Layer(*pair) for pair in pairwise(sizes)]

    def learn(self, positive, negative):
        for number, layer in enumerate(self.layers):
            positive, negative = layer.learn(positive, negative, number * layer.steps)


torch.manual_seed(0)
data = torch.randn(200, 12)
loader = DataLoader(TensorDataset(data, (data[:, 0] > 0).long()), batch_size=100, shuffle=True)
x, y = next(iter(loader))
wrong = 1 - y
marked, mistaken = x.clone(), x.clone()
marked[:, :2], mistaken[:, :2] = nn.functional.one_hot(y, 2), nn.functional.one_hot(wrong, 2)
Net([12, 32, 32]).learn(marked, mistaken)
