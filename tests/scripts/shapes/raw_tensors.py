"""No module: two weight matrices are plain tensors, and an optimizer is given a list of them."""

import torch

torch.manual_seed(0)
weights = [torch.randn(6, 32) * 0.3, torch.randn(32, 1) * 0.3]
for weight in weights:
    weight.requires_grad_()
optimizer = torch.optim.Adam(weights, lr=1e-2)


def predict(x):
    return torch.tanh(x @ weights[0]) @ weights[1]


for step in range(1, 151):
    x = torch.randn(40, 6)
    loss = (predict(x) - torch.sin(x[:, :1])).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step, loss.item())
