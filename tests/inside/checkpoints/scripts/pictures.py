"""A small convolutional network over pictures that are made one by one, with an evaluation each epoch."""

import json

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(3)
torch.set_num_threads(1)


class Pictures(Dataset):
    def __init__(self, count, first):
        self.count, self.first = count, first

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(self.first + index)
        label = index % 4
        picture = torch.randn(3, 12, 12, generator=generator)
        picture[:, label * 3 : label * 3 + 3] += 1.0
        return picture, label


train = DataLoader(Pictures(128, 0), batch_size=16, shuffle=True)
valid = DataLoader(Pictures(32, 1000), batch_size=16)
model = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1),
    nn.BatchNorm2d(8),
    nn.ReLU(),
    nn.Conv2d(8, 8, 3, stride=2),
    nn.ReLU(),
    nn.Flatten(),
    nn.Linear(200, 4),
)
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
criterion = nn.CrossEntropyLoss()
step, history = 0, []
log = open("log.csv", "w")  # noqa: SIM115

for epoch in range(8):
    model.train()
    for pictures, labels in train:
        optimizer.zero_grad()
        loss = criterion(model(pictures), labels)
        loss.backward()
        optimizer.step()
        step += 1
        history.append(loss.item())
        print("step", step, loss.item(), flush=True)
        log.write(f"{step},{loss.item()}\n")
    scheduler.step()
    model.eval()
    with torch.no_grad():
        right = sum((model(pictures).argmax(1) == labels).sum().item() for pictures, labels in valid)
    print("epoch", epoch, right, scheduler.get_last_lr(), flush=True)
log.close()
weights = {f"model.{name}": value.tolist() for name, value in model.state_dict().items()}
with open("weights.json", "w") as file:
    json.dump([weights, history, step], file)
