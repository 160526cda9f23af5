"""Train ResNet-50 on pictures of 224x224, as the usual ImageNet scripts do: float32, SGD, loader workers.

The pictures are drawn at random and lie in memory as bytes; a sample is flipped
and normalized.
"""

import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
STD = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)


class Pictures(Dataset):
    def __init__(self, count, side, classes):
        self.pictures = torch.randint(0, 256, (min(count, 512), 3, side, side), dtype=torch.uint8)
        self.count, self.classes = count, classes

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        picture = self.pictures[index % len(self.pictures)]
        if torch.rand(1) < 0.5:
            picture = picture.flip(-1)
        return (picture.float().div(255) - MEAN) / STD, index % self.classes


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, inplanes, planes, stride=1, downsample=None):
        super().__init__()
        self.conv1 = nn.Conv2d(inplanes, planes, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.conv3 = nn.Conv2d(planes, planes * self.expansion, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(planes * self.expansion)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample

    def forward(self, x):
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self, layers, width, num_classes):
        super().__init__()
        self.inplanes = width
        self.conv1 = nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1 = self._make_layer(width, layers[0])
        self.layer2 = self._make_layer(2 * width, layers[1], stride=2)
        self.layer3 = self._make_layer(4 * width, layers[2], stride=2)
        self.layer4 = self._make_layer(8 * width, layers[3], stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(8 * width * Bottleneck.expansion, num_classes)

    def _make_layer(self, planes, blocks, stride=1):
        outplanes = planes * Bottleneck.expansion
        downsample = nn.Sequential(
            nn.Conv2d(self.inplanes, outplanes, 1, stride=stride, bias=False), nn.BatchNorm2d(outplanes)
        )
        layers = [Bottleneck(self.inplanes, planes, stride, downsample)]
        self.inplanes = outplanes
        layers += [Bottleneck(outplanes, planes) for _ in range(1, blocks)]
        return nn.Sequential(*layers)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        x = torch.flatten(self.avgpool(x), 1)
        return self.fc(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, nargs=4, default=[3, 4, 6, 3])
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--pictures", type=int, default=12800)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--workers", type=int, default=12)
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    torch.manual_seed(0)

    train_set = Pictures(args.pictures, args.side, 1000)
    train_loader = DataLoader(
        train_set, batch_size=args.batch_size, shuffle=True, num_workers=args.workers, pin_memory=True
    )
    model = ResNet(args.layers, args.width, 1000).to(args.device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30, gamma=0.1)
    for epoch in range(args.epochs):
        model.train()
        start = time.time()
        for i, (images, target) in enumerate(train_loader):
            images = images.to(args.device, non_blocking=True)
            target = target.to(args.device, non_blocking=True)
            output = model(images)
            loss = F.cross_entropy(output, target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if i % 20 == 0:
                print(f"Epoch: [{epoch}][{i}/{len(train_loader)}] loss {loss.item():.4f}")
        scheduler.step()
        print(f"Epoch {epoch}: {len(train_set) / (time.time() - start):.1f} samples a second")


if __name__ == "__main__":
    main()
