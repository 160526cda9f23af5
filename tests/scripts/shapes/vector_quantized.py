"""A small VQ-VAE: the model counts by NumPy, within its own forward pass, how often each code is used."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class VectorQuantizer(nn.Module):
    def __init__(self, n_codes, dim, beta=0.25):
        super().__init__()
        self.beta = beta
        self.embedding = nn.Embedding(n_codes, dim)
        self.embedding.weight.data.uniform_(-1.0 / n_codes, 1.0 / n_codes)
        self.usage = np.zeros(n_codes)

    def forward(self, z):
        flat = z.permute(0, 2, 3, 1).contiguous().view(-1, z.shape[1])
        distances = (
            torch.sum(flat**2, dim=1, keepdim=True)
            + torch.sum(self.embedding.weight**2, dim=1)
            - 2 * torch.matmul(flat, self.embedding.weight.t())
        )
        nearest = torch.argmin(distances, dim=1)
        np.add.at(self.usage, nearest.numpy(), 1)
        quantized = self.embedding(nearest).view(z.shape[0], z.shape[2], z.shape[3], -1).permute(0, 3, 1, 2)
        loss = F.mse_loss(quantized.detach(), z) * self.beta + F.mse_loss(quantized, z.detach())
        return z + (quantized - z).detach(), loss


class VQVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, 16, 4, stride=2, padding=1), nn.ReLU(), nn.Conv2d(16, 8, 3, padding=1)
        )
        self.quantizer = VectorQuantizer(32, 8)
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(8, 16, 4, stride=2, padding=1), nn.ReLU(), nn.Conv2d(16, 3, 3, padding=1)
        )
        self.spread = 0.0

    def forward(self, x):
        z = self.encoder(x)
        self.spread = float(z.detach().numpy().std())
        quantized, loss = self.quantizer(z)
        return loss, self.decoder(quantized)


torch.manual_seed(0)
model = VQVAE()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-4, amsgrad=True)
loader = DataLoader(TensorDataset(torch.randn(640, 3, 16, 16)), batch_size=16, shuffle=True)
step = 0
for _ in range(4):
    for (x,) in loader:
        optimizer.zero_grad()
        embedding_loss, x_hat = model(x)
        loss = torch.mean((x_hat - x) ** 2) + embedding_loss
        loss.backward()
        optimizer.step()
        step += 1
        print("step", step, float(loss.cpu().detach().numpy()))
