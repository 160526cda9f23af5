"""A GAN whose generator learns the data's mean first, by itself."""

import torch
from torch import nn


def real(count):
    return torch.randn(count, 2) * 0.3 + torch.tensor([1.0, -1.0])


class Generator(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))


class Discriminator(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))


def main():
    torch.manual_seed(0)
    generator = Generator()
    of_generator = torch.optim.Adam(generator.parameters(), lr=1e-2)
    count = 0
    for _ in range(60):
        loss = (generator(torch.randn(32, 4)).mean(0) - real(32).mean(0)).pow(2).sum()
        of_generator.zero_grad()
        loss.backward()
        of_generator.step()
        count += 1
        print("step", count, loss.item())
    discriminator = Discriminator()
    of_discriminator = torch.optim.Adam(discriminator.parameters(), lr=1e-2)
    tells = nn.functional.binary_cross_entropy_with_logits
    for _ in range(50):
        made = generator(torch.randn(32, 4))
        scores = discriminator(torch.cat([real(32), made.detach()]))
        loss = tells(scores, torch.cat([torch.ones(32, 1), torch.zeros(32, 1)]))
        of_discriminator.zero_grad()
        loss.backward()
        of_discriminator.step()
        count += 1
        print("step", count, loss.item())
        loss = tells(discriminator(made), torch.ones(32, 1))
        of_generator.zero_grad()
        loss.backward()
        of_generator.step()
        count += 1
        print("step", count, loss.item())


if __name__ == "__main__":
    main()
