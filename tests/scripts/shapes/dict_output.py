"""The model returns a dict, the loss among it."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(5, 20)
        self.out = nn.Linear(20, 3)

    def forward(self, x, labels=None):
        hidden = torch.relu(self.hidden(x))
        result = {"hidden": hidden, "logits": self.out(hidden)}
        if labels is not None:
            result["loss"] = nn.functional.cross_entropy(result["logits"], labels)
        return result


torch.manual_seed(0)
X = torch.randn(900, 5)
Y = X[:, :3].argmax(1)
model = Model()
opt = torch.optim.Adam(model.parameters(), lr=0.01)
step = 0
for _ in range(5):
    for x, y in zip(X.split(30), Y.split(30), strict=True):
        out = model(x, labels=y)
        opt.zero_grad()
        out["loss"].backward()
        opt.step()
        step += 1
        print("step", step, out["loss"].item())
