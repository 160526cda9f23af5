"""Fast neural style: a network of transposed convolutions is trained through a frozen one that judges it."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    def __len__(self):
        return 192

    def __getitem__(self, index):
        drawn = torch.Generator().manual_seed(index)
        return torch.rand(3, 16, 16, generator=drawn).mul(255), 0


class Vgg(nn.Module):
    def __init__(self):
        super().__init__()
        self.slice1 = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU())
        self.slice2 = nn.Sequential(nn.AvgPool2d(2), nn.Conv2d(8, 16, 3, padding=1), nn.ReLU())
        for param in self.parameters():
            param.requires_grad = False

    def forward(self, x):
        first = self.slice1(x)
        return first, self.slice2(first)


class TransformerNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(3, 16, 3, stride=2))
        self.norm = nn.InstanceNorm2d(16, affine=True)
        self.up = nn.ConvTranspose2d(16, 3, 4, stride=2, padding=1)

    def forward(self, x):
        return self.up(F.relu(self.norm(self.down(x))))


def gram(y):
    b, ch, h, w = y.size()
    features = y.view(b, ch, w * h)
    return features.bmm(features.transpose(1, 2)) / (ch * h * w)


def normalize(batch):
    mean = batch.new_tensor([0.485, 0.456, 0.406]).view(-1, 1, 1)
    std = batch.new_tensor([0.229, 0.224, 0.225]).view(-1, 1, 1)
    return (batch / 255.0 - mean) / std


def main():
    torch.manual_seed(0)
    loader = DataLoader(Pictures(), batch_size=8)
    transformer, vgg = TransformerNet(), Vgg()
    optimizer = torch.optim.Adam(transformer.parameters(), 1e-3)
    style = [gram(y) for y in vgg(normalize(torch.rand(1, 3, 16, 16).cumsum(3) * 30).repeat(8, 1, 1, 1))]
    step = 0
    for _ in range(5):
        transformer.train()
        for x, _ in loader:
            optimizer.zero_grad()
            y = transformer(x)
            of_y, of_x = vgg(normalize(y)), vgg(normalize(x))
            loss = 1e2 * F.mse_loss(of_y[1], of_x[1])
            for found, wanted in zip(of_y, style, strict=True):
                loss += 1e4 * F.mse_loss(gram(found), wanted[: len(x)])
            loss.backward()
            optimizer.step()
            step += 1
            print("step", step, loss.item())


if __name__ == "__main__":
    main()
