"""Train a convolutional network with batch normalization and dropout on Fashion-MNIST.

Written as most tutorials are: layers in blocks, dropout after pooling, ``.view`` before the linear layers. The
images and what prepares them come from ``fashion_cnn.py`` beside this file.
"""

import argparse

import torch
import torch.nn as nn
from fashion_cnn import Compose, FashionMNIST, Normalize, ToTensor, evaluate
from torch.utils.data import DataLoader


class ConvNet(nn.Module):
    """Two blocks of convolution, batch normalization, pooling and dropout, then two linear layers."""

    def __init__(self, num_classes=10):
        super().__init__()
        self.layer1 = nn.Sequential(
            nn.Conv2d(1, 32, kernel_size=5, stride=1, padding=2),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(kernel_size=2, stride=2),
            nn.Dropout(0.1),
        )
        self.layer2 = nn.Sequential(
            nn.Conv2d(32, 64, kernel_size=5, stride=1, padding=2),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.MaxPool2d(kernel_size=2, stride=2),
            nn.Dropout(0.25),
        )
        self.fc1 = nn.Linear(7 * 7 * 64, 128)
        self.dropout = nn.Dropout(0.5)
        self.fc2 = nn.Linear(128, num_classes)

    def forward(self, x):
        out = self.layer1(x)
        out = self.layer2(out)
        out = out.view(out.size(0), -1)
        out = torch.relu(self.fc1(out))
        return self.fc2(self.dropout(out))


def main():
    parser = argparse.ArgumentParser(description="Train a CNN with batch normalization on Fashion-MNIST.")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=100)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=None)
    args = parser.parse_args()
    device = torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")

    if args.seed is not None:
        torch.manual_seed(args.seed)

    transform = Compose([ToTensor(), Normalize([0.2860], [0.3530])])
    train_dataset = FashionMNIST(train=True, transform=transform)
    test_dataset = FashionMNIST(train=False, transform=transform)
    train_loader = DataLoader(dataset=train_dataset, batch_size=args.batch_size, shuffle=True)
    test_loader = DataLoader(dataset=test_dataset, batch_size=args.batch_size, shuffle=False)

    model = ConvNet().to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)

    total_step = len(train_loader)
    for epoch in range(args.epochs):
        model.train()
        for i, (images, labels) in enumerate(train_loader):
            images = images.to(device)
            labels = labels.to(device)

            outputs = model(images)
            loss = criterion(outputs, labels)

            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

            if (i + 1) % 20 == 0:
                print(f"Epoch [{epoch + 1}/{args.epochs}], Step [{i + 1}/{total_step}], Loss: {loss.item():.4f}")
        print(f"Test accuracy: {evaluate(model, test_loader, device):.4f}")


if __name__ == "__main__":
    main()
