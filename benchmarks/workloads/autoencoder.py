"""A variational autoencoder on Fashion-MNIST: each epoch trains, tests, and saves a sheet of new pictures.

python autoencoder.py [--epochs N] [--seed N]
"""

import argparse
import gzip

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset

from hasten import examples

DATA = examples.path("fashion_cnn").parent / "data" / "fashion-mnist" / "t10k-images-idx3-ubyte.gz"


class ToTensor:
    def __call__(self, picture: Image.Image) -> torch.Tensor:
        return torch.from_numpy(np.array(picture)).unsqueeze(0).float() / 255


class FashionPictures(Dataset):
    def __init__(self, train: bool, transform: ToTensor) -> None:
        with gzip.open(DATA) as file:
            pictures = np.frombuffer(file.read(), dtype=np.uint8, offset=16).reshape(-1, 28, 28)
        self.pictures = pictures[:8000] if train else pictures[8000:]
        self.transform = transform

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.transform(Image.fromarray(self.pictures[index], mode="L"))


class VAE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(784, 400)
        self.fc21 = nn.Linear(400, 20)
        self.fc22 = nn.Linear(400, 20)
        self.fc3 = nn.Linear(20, 400)
        self.fc4 = nn.Linear(400, 784)

    def encode(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = F.relu(self.fc1(x))
        return self.fc21(hidden), self.fc22(hidden)

    def reparameterize(self, mu: torch.Tensor, logvar: torch.Tensor) -> torch.Tensor:
        std = torch.exp(0.5 * logvar)
        return mu + torch.randn_like(std) * std

    def decode(self, z: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        mu, logvar = self.encode(x.view(-1, 784))
        return self.decode(self.reparameterize(mu, logvar)), mu, logvar


def loss_of(made: torch.Tensor, x: torch.Tensor, mu: torch.Tensor, logvar: torch.Tensor) -> torch.Tensor:
    told_apart = F.binary_cross_entropy(made, x.view(-1, 784), reduction="sum")
    return told_apart - 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())


def train(model: VAE, loader: DataLoader, optimizer: optim.Optimizer, epoch: int) -> None:
    model.train()
    for i, x in enumerate(loader):
        optimizer.zero_grad()
        made, mu, logvar = model(x)
        loss = loss_of(made, x, mu, logvar)
        loss.backward()
        optimizer.step()
        if i % 50 == 0:
            print(f"Train epoch {epoch} [{i * len(x)}/{len(loader.dataset)}] {loss.item() / len(x):.4f}")


def test(model: VAE, loader: DataLoader, epoch: int) -> None:
    model.eval()
    total = 0.0
    with torch.no_grad():
        for x in loader:
            made, mu, logvar = model(x)
            total += loss_of(made, x, mu, logvar).item()
        sheet = model.decode(torch.randn(64, 20)).view(8, 8, 28, 28).permute(0, 2, 1, 3).reshape(224, 224)
    Image.fromarray((255 * sheet).byte().numpy()).save(f"sample_{epoch}.png")
    print(f"Test set loss {total / len(loader.dataset):.4f}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    train_loader = DataLoader(FashionPictures(True, ToTensor()), batch_size=32, shuffle=True)
    test_loader = DataLoader(FashionPictures(False, ToTensor()), batch_size=32)
    model = VAE()
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(1, arguments.epochs + 1):
        train(model, train_loader, optimizer, epoch)
        test(model, test_loader, epoch)


if __name__ == "__main__":
    main()
