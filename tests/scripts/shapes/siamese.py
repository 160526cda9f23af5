"""Two pictures go through one network, and a sigmoid says whether they differ. At its rate the first steps
leave the sigmoid next to 1, where only single precision still has a gradient.
"""

import torch
from torch import nn
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, Dataset


class Pairs(Dataset):
    def __init__(self, count, seed):
        generator = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(4, (count,), generator=generator)
        self.pictures = torch.rand(count, 1, 12, 12, generator=generator) * 0.5
        for picture, label in zip(self.pictures, self.labels.tolist(), strict=True):
            picture[0, 3 * label : 3 * label + 3] += 0.5
        self.others = torch.randint(count, (count,), generator=generator)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        other = self.others[index]
        target = float(self.labels[index] != self.labels[other])
        return self.pictures[index], self.pictures[other], target


class SiameseNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            *(nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU()),
            nn.AdaptiveAvgPool2d(2),
        )
        self.head = nn.Sequential(nn.Linear(256, 256), nn.ReLU(inplace=True), nn.Linear(256, 1))
        for layer in self.head:
            if isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight)
                layer.bias.data.fill_(0.01)
        self.sigmoid = nn.Sigmoid()

    def forward_once(self, pictures):
        output = self.features(pictures)
        return output.view(output.size()[0], -1)

    def forward(self, first, second):
        both = torch.cat((self.forward_once(first), self.forward_once(second)), 1)
        return self.sigmoid(self.head(both))


def test(model, loader, criterion):
    model.eval()
    correct = 0
    with torch.no_grad():
        for first, second, targets in loader:
            outputs = model(first, second).squeeze()
            pred = torch.where(outputs > 0.5, 1, 0)
            correct += pred.eq(targets.view_as(pred)).sum().item()
    print("test", correct / len(loader.dataset))


def main():
    torch.manual_seed(1)
    train_loader = DataLoader(Pairs(960, 1), batch_size=24, shuffle=True)
    test_loader = DataLoader(Pairs(240, 2), batch_size=120)
    model, criterion = SiameseNetwork(), nn.BCELoss()
    optimizer = torch.optim.Adadelta(model.parameters(), lr=3.0)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.7)
    step = 0
    for _ in range(4):
        model.train()
        for first, second, targets in train_loader:
            optimizer.zero_grad()
            outputs = model(first, second).squeeze()
            loss = criterion(outputs, targets.float())
            loss.backward()
            optimizer.step()
            step += 1
            print("step", step, loss.item())
        test(model, test_loader, criterion)
        scheduler.step()


if __name__ == "__main__":
    main()
