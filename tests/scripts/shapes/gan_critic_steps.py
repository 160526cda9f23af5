"""A Wasserstein GAN: five steps of the critic for each step of the generator."""

import torch
from torch import nn

LATENT = 4
BATCH_SIZE = 64
N_CRITIC = 5
ROUNDS = 25
CLIP = 0.05


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(LATENT, 32), nn.ReLU(), nn.Linear(32, 2))

    def forward(self, z):
        return self.layers(z)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))

    def forward(self, x):
        return self.layers(x)


def sample_real(n):
    return torch.randn(n, 2) * 0.3 + torch.tensor([2.0, -1.0])


def main():
    torch.manual_seed(0)
    generator, critic = Generator(), Critic()
    opt_g = torch.optim.RMSprop(generator.parameters(), lr=5e-3)
    opt_c = torch.optim.RMSprop(critic.parameters(), lr=5e-3)
    step = 0
    for _ in range(ROUNDS):
        for _ in range(N_CRITIC):
            with torch.no_grad():
                fake = generator(torch.randn(BATCH_SIZE, LATENT))
            loss_c = critic(fake).mean() - critic(sample_real(BATCH_SIZE)).mean()
            opt_c.zero_grad()
            loss_c.backward()
            opt_c.step()
            with torch.no_grad():
                for p in critic.parameters():
                    p.clamp_(-CLIP, CLIP)
            step += 1
            print(f"step {step} {loss_c.item()} critic")

        loss_g = -critic(generator(torch.randn(BATCH_SIZE, LATENT))).mean()
        opt_g.zero_grad()
        loss_g.backward()
        opt_g.step()
        step += 1
        print(f"step {step} {loss_g.item()} generator")


if __name__ == "__main__":
    main()
