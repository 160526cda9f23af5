"""A parameter group for each parameter, as recipes for fine-tuning make them: lower layers learn more slowly,
biases and norms have no weight decay, and all rates are warmed up.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

BLOCKS, DECAY = 75, 0.9


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        return x + 0.1 * self.linear(self.norm(x))


class Deep(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(BLOCKS))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x.mean(dim=1)


def groups_of(model, rate, weight_decay):
    groups = []
    for name, parameter in model.named_parameters():
        layer = int(name.split(".")[1]) // 6
        scale = DECAY ** (BLOCKS // 6 - layer)
        groups.append(
            {
                "params": [parameter],
                "param_names": [name],
                "lr_scale": scale,
                "lr": rate * scale,
                "weight_decay": weight_decay if parameter.ndim > 1 else 0.0,
            }
        )
    return groups


def main():
    torch.manual_seed(0)
    x = torch.randn(400, 8)
    loader = DataLoader(TensorDataset(x, x.abs().mean(dim=1)), batch_size=16, shuffle=True)
    model = Deep(8)
    optimizer = torch.optim.AdamW(groups_of(model, 1e-3, 0.05))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 20))
    step = 0
    for _epoch in range(6):
        for inputs, targets in loader:
            loss = nn.functional.mse_loss(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            step += 1
            print("step", step, loss.item())


main()
