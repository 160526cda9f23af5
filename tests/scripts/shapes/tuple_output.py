"""A variational autoencoder: the model returns a tuple of three tensors."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(16, 32)
        self.fc21 = nn.Linear(32, 3)
        self.fc22 = nn.Linear(32, 3)
        self.fc3 = nn.Linear(3, 32)
        self.fc4 = nn.Linear(32, 16)

    def reparameterize(self, mu, logvar):
        return mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)

    def forward(self, x):
        h = F.relu(self.fc1(x))
        mu, logvar = self.fc21(h), self.fc22(h)
        z = self.reparameterize(mu, logvar)
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z)))), mu, logvar


def loss_function(recon, x, mu, logvar):
    bce = F.binary_cross_entropy(recon, x, reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return (bce + kld) / len(x)


torch.manual_seed(0)
patterns = torch.randint(0, 2, (4, 16)).float()
train_loader = DataLoader(patterns[torch.randint(4, (1200,))], batch_size=24, shuffle=True)
model = VAE()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

step = 0
for _epoch in range(3):
    model.train()
    for data in train_loader:
        optimizer.zero_grad()
        recon_batch, mu, logvar = model(data)
        loss = loss_function(recon_batch, data, mu, logvar)
        loss.backward()
        optimizer.step()
        step += 1
        print(f"step {step} {loss.item()}")
