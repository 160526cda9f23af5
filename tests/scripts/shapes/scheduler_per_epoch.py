"""A learning rate schedule that moves at every epoch (StepLR)."""

import torch
import torch.nn as nn
import torch.optim as optim
from torch.optim.lr_scheduler import StepLR


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(16, 32)
        self.fc2 = nn.Linear(32, 4)

    def forward(self, x):
        return nn.functional.log_softmax(self.fc2(torch.relu(self.fc1(x))), dim=1)


class Blobs(torch.utils.data.Dataset):
    def __init__(self, size):
        centres = torch.randn(4, 16)
        self.labels = torch.randint(4, (size,))
        self.points = centres[self.labels] + torch.randn(size, 16)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.points[index], self.labels[index]


def train(model, train_loader, optimizer, step):
    model.train()
    for data, target in train_loader:
        optimizer.zero_grad()
        loss = nn.functional.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        step += 1
        print(f"step {step} {loss.item()}")
    return step


def main():
    torch.manual_seed(0)
    train_loader = torch.utils.data.DataLoader(Blobs(800), batch_size=32, shuffle=True)
    model = Net()
    optimizer = optim.Adadelta(model.parameters(), lr=1.0)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.7)
    step = 0
    for _epoch in range(6):
        step = train(model, train_loader, optimizer, step)
        scheduler.step()


if __name__ == "__main__":
    main()
