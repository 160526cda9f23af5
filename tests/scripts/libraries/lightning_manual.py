"""A small GAN in Lightning with manual optimization: two optimizers take turns on every batch."""

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

LATENT = 8


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(LATENT, 64), nn.ReLU(), nn.Linear(64, 2))

    def forward(self, z):
        return self.layers(z)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))

    def forward(self, x):
        return self.layers(x)


class Gan(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.generator = Generator()
        self.discriminator = Discriminator()
        self.taken = 0

    def judge(self, points, real):
        verdict = self.discriminator(points)
        wanted = torch.full_like(verdict, 1.0 if real else 0.0)
        return nn.functional.binary_cross_entropy_with_logits(verdict, wanted)

    def report(self, loss):
        self.taken += 1
        print("step", self.taken, loss.item())

    def training_step(self, batch, batch_idx):
        (real,) = batch
        optimizer_d, optimizer_g = self.optimizers()
        z = torch.randn(len(real), LATENT)

        loss_d = (self.judge(real, True) + self.judge(self.generator(z).detach(), False)) / 2
        optimizer_d.zero_grad()
        self.manual_backward(loss_d)
        optimizer_d.step()
        self.report(loss_d)

        loss_g = self.judge(self.generator(z), True)
        optimizer_g.zero_grad()
        self.manual_backward(loss_g)
        optimizer_g.step()
        self.report(loss_g)

    def configure_optimizers(self):
        optimizer_d = torch.optim.Adam(self.discriminator.parameters(), lr=1e-3, betas=(0.5, 0.999))
        optimizer_g = torch.optim.Adam(self.generator.parameters(), lr=1e-3, betas=(0.5, 0.999))
        return optimizer_d, optimizer_g


def main():
    L.seed_everything(0)
    angles = torch.rand(1920) * 2 * torch.pi
    points = torch.stack([angles.cos(), angles.sin()], dim=1)
    loader = DataLoader(TensorDataset(points), batch_size=32, shuffle=True)
    trainer = L.Trainer(
        max_epochs=1,
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Gan(), loader)


if __name__ == "__main__":
    main()
