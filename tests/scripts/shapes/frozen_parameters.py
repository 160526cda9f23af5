"""Fine-tuning: the backbone is frozen and only the head is given to the optimizer."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten()
        )
        self.fc = nn.Linear(256, num_classes)

    def forward(self, x):
        return self.fc(self.backbone(x))


torch.manual_seed(0)
labels = torch.randint(2, (640,))
images = torch.rand(640, 1, 12, 12)
images[labels == 1, :, :6] += 0.5

model = Classifier(num_classes=2)
for param in model.backbone.parameters():
    param.requires_grad = False

optimizer = torch.optim.SGD(model.fc.parameters(), lr=0.1, momentum=0.9)
criterion = nn.CrossEntropyLoss()
loader = DataLoader(TensorDataset(images, labels), batch_size=16, shuffle=True)

step = 0
for _epoch in range(4):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        step += 1
        print(f"step {step} {loss.item()}")
