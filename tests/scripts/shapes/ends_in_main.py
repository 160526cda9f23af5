"""Everything is made in main(), which returns after 25 steps: nothing of the training is left then."""

import torch
from torch import nn


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 32), nn.GELU(), nn.Linear(32, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
    x = torch.randn(320, 6)
    y = x[:, :3].argmax(1)
    for step in range(1, 26):
        rows = torch.randint(320, (40,))
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        print("step", step, loss.item())


if __name__ == "__main__":
    main()
