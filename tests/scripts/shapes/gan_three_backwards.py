"""A GAN with three backward passes a batch: the discriminator on real, on fake, then the generator."""

import math

import torch
import torch.nn as nn
import torch.optim as optim
from torch.utils.data import DataLoader, TensorDataset

nz = 8


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(nn.Linear(nz, 32), nn.ReLU(True), nn.Linear(32, 2))

    def forward(self, input):
        return self.main(input)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2, inplace=True), nn.Linear(32, 1))

    def forward(self, input):
        return self.main(input).view(-1)


torch.manual_seed(0)
angle = torch.rand(640) * 2 * math.pi
ring = torch.stack([3 * angle.cos(), 3 * angle.sin()], dim=1)
dataloader = DataLoader(TensorDataset(ring), batch_size=32, shuffle=True)

netG = Generator()
netD = Discriminator()
criterion = nn.BCEWithLogitsLoss()
optimizerD = optim.Adam(netD.parameters(), lr=2e-3, betas=(0.5, 0.999))
optimizerG = optim.Adam(netG.parameters(), lr=2e-3, betas=(0.5, 0.999))

step = 0
for _epoch in range(4):
    for (real,) in dataloader:
        ones, zeros = torch.ones(len(real)), torch.zeros(len(real))

        # (1) Update D: maximize log(D(x)) + log(1 - D(G(z)))
        netD.zero_grad()
        errD_real = criterion(netD(real), ones)
        errD_real.backward()
        fake = netG(torch.randn(len(real), nz))
        errD_fake = criterion(netD(fake.detach()), zeros)
        errD_fake.backward()
        errD = errD_real + errD_fake
        optimizerD.step()
        step += 1
        print("step", step, errD.item())

        # (2) Update G: maximize log(D(G(z)))
        netG.zero_grad()
        errG = criterion(netD(fake), ones)
        errG.backward()
        optimizerG.step()
        step += 1
        print("step", step, errG.item())
