"""Train a small convolutional network on Fashion-MNIST.

Ten kinds of clothing, 28x28 grey images. The 10,000 images beside this file are split into 8,000 to
train on and 2,000 to test on.
"""

import argparse
import gzip
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image, ImageOps
from torch.utils.data import DataLoader, Dataset

DATA = Path(__file__).resolve().parent / "data" / "fashion-mnist"
TRAIN_SIZE = 8000


class Compose:
    """Apply several transforms one after another."""

    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, image):
        for transform in self.transforms:
            image = transform(image)
        return image


class Resize:
    """Resize a PIL image to size x size pixels."""

    def __init__(self, size):
        self.size = size

    def __call__(self, image):
        return image.resize((self.size, self.size), Image.Resampling.BILINEAR)


class AutoContrast:
    """Stretch the grey values of a PIL image to the full range from black to white."""

    def __call__(self, image):
        return ImageOps.autocontrast(image)


class ToTensor:
    """Turn a grey PIL image into a float tensor of shape (1, height, width) with values from 0 to 1."""

    def __call__(self, image):
        pixels = torch.from_numpy(np.array(image))
        return pixels.unsqueeze(0).float() / 255


class Normalize:
    """Shift and scale each channel of a tensor by a mean and a standard deviation."""

    def __init__(self, mean, std):
        self.mean = mean
        self.std = std

    def __call__(self, image):
        mean = torch.tensor(self.mean).view(-1, 1, 1)
        std = torch.tensor(self.std).view(-1, 1, 1)
        return (image - mean) / std


class FashionMNIST(Dataset):
    """Pairs of an image and the number of its class."""

    def __init__(self, train, transform=None):
        with gzip.open(DATA / "t10k-images-idx3-ubyte.gz") as file:
            images = np.frombuffer(file.read(), dtype=np.uint8, offset=16).reshape(-1, 28, 28)
        with gzip.open(DATA / "t10k-labels-idx1-ubyte.gz") as file:
            labels = np.frombuffer(file.read(), dtype=np.uint8, offset=8)
        part = slice(None, TRAIN_SIZE) if train else slice(TRAIN_SIZE, None)
        self.images = images[part]
        self.labels = labels[part]
        self.transform = transform

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = Image.fromarray(self.images[index])
        label = int(self.labels[index])
        if self.transform is not None:
            image = self.transform(image)
        return image, label


class Net(nn.Module):
    """Two convolutions, each followed by pooling, and two linear layers."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.fc1 = nn.Linear(64 * 8 * 8, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        x = self.pool(F.relu(self.conv1(x)))
        x = self.pool(F.relu(self.conv2(x)))
        x = torch.flatten(x, 1)
        x = F.relu(self.fc1(x))
        return self.fc2(x)


def train(model, loader, criterion, optimizer, device):
    """Train for one epoch and return the mean loss of its batches."""
    model.train()
    running_loss = 0.0
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        optimizer.zero_grad()
        outputs = model(images)
        loss = criterion(outputs, labels)
        loss.backward()
        optimizer.step()
        running_loss += loss.item()
    return running_loss / len(loader)


def evaluate(model, loader, device):
    """Return the share of images whose class is predicted correctly."""
    model.eval()
    correct = 0
    with torch.no_grad():
        for images, labels in loader:
            images, labels = images.to(device), labels.to(device)
            predicted = model(images).argmax(dim=1)
            correct += (predicted == labels).sum().item()
    return correct / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser(description="Train a small CNN on Fashion-MNIST.")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--device", default=None, help="such as cpu or cuda; else the accelerator, if there is one")
    args = parser.parse_args()
    device = args.device or torch.accelerator.current_accelerator(check_available=True) or "cpu"

    if args.seed is not None:
        torch.manual_seed(args.seed)

    transform = Compose([Resize(32), AutoContrast(), ToTensor(), Normalize([0.30], [0.36])])
    train_data = FashionMNIST(train=True, transform=transform)
    test_data = FashionMNIST(train=False, transform=transform)
    train_loader = DataLoader(train_data, batch_size=args.batch_size, shuffle=True)
    test_loader = DataLoader(test_data, batch_size=args.batch_size)

    model = Net().to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)

    for epoch in range(1, args.epochs + 1):
        start = time.perf_counter()
        loss = train(model, train_loader, criterion, optimizer, device)
        accuracy = evaluate(model, test_loader, device)
        seconds = time.perf_counter() - start
        print(f"epoch {epoch}: loss {loss:.4f}, test accuracy {accuracy:.4f}, {seconds:.1f} s")

    print(f"accuracy {accuracy:.4f}")


if __name__ == "__main__":
    main()
