"""Train a small ResNet on Fashion-MNIST with random augmentation.

Ten kinds of clothing, 28x28 grey images. The 10,000 images beside this file are split into 8,000 to
train on and 2,000 to test on.
"""

import argparse
import gzip
import random
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image, ImageEnhance, ImageOps
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


class RandomCrop:
    """Pad a PIL image with black on all sides and cut a random square of size x size pixels out of it."""

    def __init__(self, size, padding):
        self.size = size
        self.padding = padding

    def __call__(self, image):
        image = ImageOps.expand(image, self.padding)
        left = random.randint(0, image.width - self.size)
        top = random.randint(0, image.height - self.size)
        return image.crop((left, top, left + self.size, top + self.size))


class RandomHorizontalFlip:
    """Mirror every second PIL image, by chance."""

    def __call__(self, image):
        if random.random() < 0.5:
            return ImageOps.mirror(image)
        return image


class RandomRotation:
    """Rotate a PIL image by a random angle of at most so many degrees."""

    def __init__(self, degrees):
        self.degrees = degrees

    def __call__(self, image):
        angle = random.uniform(-self.degrees, self.degrees)
        return image.rotate(angle, Image.Resampling.BICUBIC)


class ColorJitter:
    """Change the brightness and the contrast of a PIL image by random factors around 1."""

    def __init__(self, brightness, contrast):
        self.brightness = brightness
        self.contrast = contrast

    def __call__(self, image):
        factor = random.uniform(1 - self.brightness, 1 + self.brightness)
        image = ImageEnhance.Brightness(image).enhance(factor)
        factor = random.uniform(1 - self.contrast, 1 + self.contrast)
        return ImageEnhance.Contrast(image).enhance(factor)


class ElasticTransform:
    """Shift the pixels of a PIL image by a random smooth field, as if drawn on cloth (Simard et al., 2003).

    alpha is about the size of the shifts and sigma their smoothness, both in pixels.
    """

    def __init__(self, alpha, sigma):
        self.alpha = alpha
        self.sigma = sigma

    def __call__(self, image):
        pixels = np.array(image, dtype=np.float32)
        height, width = pixels.shape
        dy = self.smooth(np.random.uniform(-1, 1, (height, width)))
        dx = self.smooth(np.random.uniform(-1, 1, (height, width)))
        y, x = np.mgrid[:height, :width]
        y = np.clip(y + dy, 0, height - 1.001)
        x = np.clip(x + dx, 0, width - 1.001)

        # each new pixel is the mean of the four around its place, by how near they are
        top, left = y.astype(int), x.astype(int)
        fy, fx = y - top, x - left
        above = pixels[top, left] * (1 - fx) + pixels[top, left + 1] * fx
        below = pixels[top + 1, left] * (1 - fx) + pixels[top + 1, left + 1] * fx
        return Image.fromarray((above * (1 - fy) + below * fy).round().astype(np.uint8))

    def smooth(self, field):
        field = self.blur(self.blur(field).T).T
        return field * self.alpha / (np.abs(field).max() + 1e-6)

    def blur(self, field):
        distance = np.arange(len(field))
        kernel = np.exp(-((distance[:, None] - distance) ** 2) / (2 * self.sigma**2))
        return kernel / kernel.sum(axis=1, keepdims=True) @ field


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


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut around them."""

    def __init__(self, in_channels, out_channels, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(out_channels)
        self.shortcut = nn.Sequential()
        if stride != 1 or in_channels != out_channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(in_channels, out_channels, 1, stride=stride, bias=False),
                nn.BatchNorm2d(out_channels),
            )

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return F.relu(out + self.shortcut(x))


class ResNet(nn.Module):
    """A convolution and pooling down to 7x7 pixels, three stages of one block each, and a linear layer."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, stride=2, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(32)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        self.stage1 = BasicBlock(32, 32, stride=1)
        self.stage2 = BasicBlock(32, 64, stride=2)
        self.stage3 = BasicBlock(64, 128, stride=2)
        self.fc = nn.Linear(128, 10)

    def forward(self, x):
        x = self.pool(F.relu(self.bn1(self.conv1(x))))
        x = self.stage3(self.stage2(self.stage1(x)))
        x = torch.flatten(F.adaptive_avg_pool2d(x, 1), 1)
        return self.fc(x)


def train(model, loader, criterion, optimizer, scheduler, device):
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
        scheduler.step()
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
    parser = argparse.ArgumentParser(description="Train a small ResNet on Fashion-MNIST.")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.1, help="the highest learning rate of the schedule")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--device", default=None, help="such as cpu or cuda; else the accelerator, if there is one")
    args = parser.parse_args()
    device = args.device or torch.accelerator.current_accelerator(check_available=True) or "cpu"

    if args.seed is not None:
        random.seed(args.seed)
        np.random.seed(args.seed)
        torch.manual_seed(args.seed)

    normalize = Normalize([0.29], [0.35])
    train_transform = Compose([
        RandomCrop(28, padding=2),
        RandomHorizontalFlip(),
        RandomRotation(10),
        ColorJitter(brightness=0.2, contrast=0.2),
        ElasticTransform(alpha=1.5, sigma=4),
        ToTensor(),
        normalize,
    ])
    test_transform = Compose([ToTensor(), normalize])
    train_data = FashionMNIST(train=True, transform=train_transform)
    test_data = FashionMNIST(train=False, transform=test_transform)
    train_loader = DataLoader(train_data, batch_size=args.batch_size, shuffle=True)
    test_loader = DataLoader(test_data, batch_size=args.batch_size)

    model = ResNet().to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(
        model.parameters(), lr=args.lr, momentum=0.9, weight_decay=5e-4, nesterov=True
    )
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=args.lr, epochs=args.epochs, steps_per_epoch=len(train_loader)
    )

    for epoch in range(1, args.epochs + 1):
        start = time.perf_counter()
        loss = train(model, train_loader, criterion, optimizer, scheduler, device)
        accuracy = evaluate(model, test_loader, device)
        seconds = time.perf_counter() - start
        lr = scheduler.get_last_lr()[0]
        print(f"epoch {epoch}: loss {loss:.4f}, test accuracy {accuracy:.4f}, lr {lr:.4f}, {seconds:.1f} s")

    print(f"accuracy {accuracy:.4f}")


if __name__ == "__main__":
    main()
