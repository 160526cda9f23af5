"""WGAN with a gradient penalty: between real and made samples the critic's slope is to be one."""

import torch
from torch import nn

LATENT, BATCH = 4, 32


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 48), nn.LeakyReLU(0.2), nn.Linear(48, 48), nn.LeakyReLU(0.2))
        self.head = nn.Linear(48, 1)

    def forward(self, x):
        return self.head(self.net(x))


def penalty(critic, real, made):
    alpha = torch.rand(real.size(0), 1)
    between = (alpha * real + (1 - alpha) * made).requires_grad_(True)
    scores = critic(between)
    gradients = torch.autograd.grad(
        outputs=scores,
        inputs=between,
        grad_outputs=torch.ones_like(scores),
        create_graph=True,
        retain_graph=True,
    )[0]
    return ((gradients.view(gradients.size(0), -1).norm(2, dim=1) - 1) ** 2).mean()


def main():
    torch.manual_seed(0)
    generator = nn.Sequential(nn.Linear(LATENT, 48), nn.ReLU(), nn.Linear(48, 2))
    critic = Critic()
    of_generator = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.0, 0.9))
    of_critic = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.0, 0.9))
    step = 0
    for _ in range(40):
        for _ in range(3):
            angle = torch.rand(BATCH, 1) * 6.2832
            real = torch.cat([angle.cos(), angle.sin()], dim=1)
            made = generator(torch.randn(BATCH, LATENT)).detach()
            loss = critic(made).mean() - critic(real).mean() + 10 * penalty(critic, real, made)
            of_critic.zero_grad()
            loss.backward()
            of_critic.step()
            step += 1
            print(f"step {step} {loss.item()}")
        loss = -critic(generator(torch.randn(BATCH, LATENT))).mean()
        of_generator.zero_grad()
        loss.backward()
        of_generator.step()
        step += 1
        print(f"step {step} {loss.item()}")


if __name__ == "__main__":
    main()
