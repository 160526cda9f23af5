"""As in Dive into Deep Learning: unreduced losses, an Accumulator, and an updater that is a function."""

import torch
from torch import nn
from torch.utils import data


class Accumulator:
    def __init__(self, n):
        self.data = [0.0] * n

    def add(self, *args):
        self.data = [a + float(b) for a, b in zip(self.data, args, strict=True)]

    def __getitem__(self, idx):
        return self.data[idx]


def load_array(arrays, batch_size, is_train=True):
    return data.DataLoader(data.TensorDataset(*arrays), batch_size, shuffle=is_train)


def accuracy(y_hat, y):
    return float((y_hat.argmax(axis=1).type(y.dtype) == y).type(y.dtype).sum())


def evaluate_accuracy(net, data_iter):
    if isinstance(net, torch.nn.Module):
        net.eval()
    metric = Accumulator(2)
    with torch.no_grad():
        for x, y in data_iter:
            metric.add(accuracy(net(x), y), y.numel())
    return metric[0] / metric[1]


step = 0


def train_epoch(net, train_iter, loss, updater):
    global step
    net.train()
    metric = Accumulator(3)
    for x, y in train_iter:
        losses = loss(net(x), y)
        if isinstance(updater, torch.optim.Optimizer):
            updater.zero_grad()
            losses.mean().backward()
            updater.step()
        else:
            losses.sum().backward()
            updater(x.shape[0])
        step += 1
        print("step", step, float(losses.mean().detach()))
        metric.add(float(losses.sum()), accuracy(net(x), y), y.numel())
    return metric[0] / metric[2], metric[1] / metric[2]


torch.manual_seed(0)
x = torch.randn(500, 1, 6, 6)
y = (x.mean((1, 2, 3)) > 0).long() + (x[:, 0, 0, 0] > 0).long()
train_iter = load_array((x[:400], y[:400]), 16)
test_iter = load_array((x[400:], y[400:]), 16, is_train=False)
net = nn.Sequential(nn.Flatten(), nn.Linear(36, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 3))
net.apply(lambda m: nn.init.normal_(m.weight, std=0.05) if type(m) is nn.Linear else None)
trainer = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(5):
    print(epoch, *train_epoch(net, train_iter, nn.CrossEntropyLoss(reduction="none"), trainer))
    print("test", evaluate_accuracy(net, test_iter))
