"""One backward pass serves two optimizers: SGD for the body, Adam for the head."""

import torch
from torch import nn, optim

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(12, 24), nn.ReLU())
        self.head = nn.Linear(24, 3)

    def forward(self, x):
        return self.head(self.body(x))


data = torch.randn(400, 12)
labels = (data @ torch.randn(12, 3)).argmax(dim=1)

net = Net()
body_optimizer = optim.SGD(net.body.parameters(), lr=0.1, momentum=0.9)
head_optimizer = optim.Adam(net.head.parameters(), lr=0.01)

step = 0
for _ in range(80):
    chosen = torch.randint(len(data), (50,))
    loss = nn.functional.cross_entropy(net(data[chosen]), labels[chosen])
    net.zero_grad()
    loss.backward()
    for optimizer in (body_optimizer, head_optimizer):
        optimizer.step()
        step += 1
        print("step", step, loss.item(), type(optimizer).__name__)
