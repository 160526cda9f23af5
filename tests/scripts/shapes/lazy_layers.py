"""A textbook's LeNet: layers find out their input sizes themselves. They are called one by one for a summary,
and a second model is made and given a first batch, before it is trained; at module level.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


def lenet():
    return nn.Sequential(
        nn.LazyConv2d(6, kernel_size=5, padding=2),
        nn.Sigmoid(),
        nn.AvgPool2d(2),
        nn.LazyConv2d(16, kernel_size=5),
        nn.Sigmoid(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.LazyLinear(32),
        nn.Sigmoid(),
        nn.LazyLinear(10),
    )


found = torch.randn(1, 1, 20, 20)
for layer in lenet():
    found = layer(found)
    print(type(layer).__name__, tuple(found.shape))

images, labels = torch.rand(80, 1, 20, 20), torch.randint(0, 10, (80,))
loader = DataLoader(TensorDataset(images, labels), batch_size=8, shuffle=True)
model = lenet()
model(next(iter(loader))[0])
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
step = 0
for _ in range(12):
    for batch, target in loader:
        loss = nn.functional.cross_entropy(model(batch), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        print("step", step, loss.item())
