"""Five-fold cross-validation: each fold has a model, an optimizer and loaders of its own."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset


def make_data():
    x = torch.randn(400, 10)
    return TensorDataset(x, (x.sum(dim=1) > 0).long())


def accuracy(model, loader):
    model.eval()
    with torch.no_grad():
        correct = sum((model(x).argmax(dim=1) == y).sum().item() for x, y in loader)
    return correct / len(loader.dataset)


def train_fold(data, fold, first_step):
    held_out = list(range(fold * 80, fold * 80 + 80))
    rest = [index for index in range(400) if index not in set(held_out)]
    train_loader = DataLoader(Subset(data, rest), batch_size=20, shuffle=True)
    test_loader = DataLoader(Subset(data, held_out), batch_size=40)
    model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    step = first_step
    for _ in range(2):
        model.train()
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            step += 1
            print("step", step, loss.item())
    return accuracy(model, test_loader), step


def main():
    torch.manual_seed(0)
    data = make_data()
    scores, step = [], 0
    for fold in range(5):
        score, step = train_fold(data, fold, step)
        scores.append(score)
    print("mean accuracy", sum(scores) / len(scores))


if __name__ == "__main__":
    main()
