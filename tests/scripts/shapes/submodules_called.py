"""Calls the model's encoder and decoder, never the model itself."""

import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(20, 16), nn.ReLU(), nn.Linear(16, 4))

    def forward(self, x):
        return self.layers(x)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 20))

    def forward(self, z):
        return self.layers(z)


class AutoEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.decoder = Decoder()


torch.manual_seed(0)
data = torch.randn(900, 3) @ torch.randn(3, 20)
model = AutoEncoder()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

step = 0
for _epoch in range(5):
    for x in data[torch.randperm(900)].split(30):
        z = model.encoder(x)
        reconstruction = model.decoder(z)
        loss = nn.functional.mse_loss(reconstruction, x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        print("step", step, loss.item())
