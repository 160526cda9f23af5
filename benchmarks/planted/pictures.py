"""A small network learns to tell pictures apart."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    """Noise, with a brighter column that says the class."""

    def __init__(self, n: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(10, (n,), generator=generator)
        self.pictures = torch.rand(n, 1, 28, 28, generator=generator)
        self.pictures[torch.arange(n), 0, :, 2 * self.labels] += 0.5

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        picture = self.pictures[index]
        return picture, self.labels[index]


def evaluate(model: nn.Module, loader: DataLoader) -> float:
    model.eval()
    correct = 0
    with torch.no_grad():
        for pictures, labels in loader:
            correct += (model(pictures).argmax(dim=1) == labels).sum().item()
    model.train()
    return correct / len(loader.dataset)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1000)
    arguments = parser.parse_args()

    torch.manual_seed(0)
    train_set = Pictures(1280, 1)
    train_loader = DataLoader(train_set, batch_size=32, shuffle=True)
    test_loader = DataLoader(Pictures(64, 2), batch_size=64)
    model = nn.Sequential(
        nn.Flatten(),
        nn.Linear(784, 256),
        nn.ReLU(),
        nn.Linear(256, 256),
        nn.ReLU(),
        nn.Linear(256, 10),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    loss_function = nn.CrossEntropyLoss()

    for epoch in range(arguments.epochs):
        total = 0.0
        for pictures, labels in train_loader:
            optimizer.zero_grad()
            loss = loss_function(model(pictures), labels)
            loss.backward()
            optimizer.step()
            total += loss.detach()
        accuracy = evaluate(model, test_loader)
        print(f"epoch {epoch}: loss {total / len(train_loader):.4f}, accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
