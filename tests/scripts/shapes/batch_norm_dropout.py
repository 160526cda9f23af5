"""A convolutional network with batch normalization and dropout."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def block(c_in, c_out):
    return nn.Sequential(
        nn.Conv2d(c_in, c_out, 3, padding=1, bias=False),
        nn.BatchNorm2d(c_out),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
    )


torch.manual_seed(0)
labels = torch.randint(4, (600,))
images = torch.randn(600, 3, 12, 12)
for i, label in enumerate(labels.tolist()):
    top, left = 6 * (label // 2), 6 * (label % 2)
    images[i, :, top : top + 6, left : left + 6] += 1

model = nn.Sequential(block(3, 8), block(8, 16), nn.Flatten(), nn.Dropout(0.3), nn.Linear(144, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
loader = DataLoader(TensorDataset(images, labels), batch_size=20, shuffle=True)

step = 0
for _epoch in range(5):
    model.train()
    for x, y in loader:
        optimizer.zero_grad(set_to_none=True)
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        step += 1
        print(f"step {step} {loss.item()}")
