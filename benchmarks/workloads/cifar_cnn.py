"""Train a small convolutional network on CIFAR-10, read from PNG files.

The folder named by --data holds train/CLASS/*.png and test/CLASS/*.png, 32x32 pixels in colour.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image
from torch.utils.data import DataLoader, Dataset


class ToTensor:
    """Turn a picture into a float tensor of shape (3, height, width) with values from 0 to 1."""

    def __call__(self, image):
        pixels = torch.from_numpy(np.array(image, dtype=np.uint8))
        return pixels.permute(2, 0, 1).contiguous().float() / 255


class ImageFolder(Dataset):
    """Pairs of an image and the number of its class; each class has a folder of its own."""

    def __init__(self, root, transform=None):
        self.classes = sorted(folder.name for folder in Path(root).iterdir() if folder.is_dir())
        self.samples = [
            (path, number)
            for number, name in enumerate(self.classes)
            for path in sorted(Path(root, name).glob("*.png"))
        ]
        if not self.samples:
            raise FileNotFoundError(f"no {root}/CLASS/*.png was found")
        self.transform = transform

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        path, label = self.samples[index]
        with Image.open(path) as file:
            image = file.convert("RGB")
        if self.transform is not None:
            image = self.transform(image)
        return image, label


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.pool = nn.MaxPool2d(2, 2)
        self.fc1 = nn.Linear(64 * 8 * 8, 512)
        self.fc2 = nn.Linear(512, 10)

    def forward(self, x):
        x = self.pool(F.relu(self.conv1(x)))
        x = self.pool(F.relu(self.conv2(x)))
        x = x.view(-1, 64 * 8 * 8)
        x = F.relu(self.fc1(x))
        return self.fc2(x)


def main():
    parser = argparse.ArgumentParser(description="Train a small CNN on CIFAR-10.")
    parser.add_argument("--data", required=True, help="folder with train/CLASS/*.png and test/CLASS/*.png")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=None)
    args = parser.parse_args()
    if args.seed is not None:
        torch.manual_seed(args.seed)

    train_data = ImageFolder(Path(args.data, "train"), ToTensor())
    test_data = ImageFolder(Path(args.data, "test"), ToTensor())
    train_loader = DataLoader(train_data, batch_size=args.batch_size, shuffle=True)
    test_loader = DataLoader(test_data, batch_size=args.batch_size)

    model = Net()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)

    for epoch in range(1, args.epochs + 1):
        start = time.perf_counter()
        model.train()
        running_loss = 0.0
        for images, labels in train_loader:
            optimizer.zero_grad()
            outputs = model(images)
            loss = criterion(outputs, labels)
            loss.backward()
            optimizer.step()
            running_loss += loss.item()

        model.eval()
        correct = 0
        with torch.no_grad():
            for images, labels in test_loader:
                predicted = model(images).argmax(dim=1)
                correct += (predicted == labels).sum().item()
        accuracy = correct / len(test_data)
        seconds = time.perf_counter() - start
        print(
            f"epoch {epoch}: loss {running_loss / len(train_loader):.4f}, "
            f"test accuracy {accuracy:.4f}, {seconds:.1f} s"
        )

    print(f"accuracy {accuracy:.4f}")


if __name__ == "__main__":
    main()
