"""A language model whose output layer shares its weight with the embedding."""

import torch
from torch import nn


class TiedLM(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.mix = nn.Sequential(nn.Linear(2 * width, width), nn.GELU(), nn.Linear(width, width))
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        return self.head(self.mix(self.embed(tokens).flatten(1)))


def main(steps=150, batch_size=40):
    torch.manual_seed(0)
    model = TiedLM(vocabulary=12, width=16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(1, steps + 1):
        tokens = torch.randint(12, (batch_size, 2))
        target = (tokens[:, 0] + 1) % 12
        loss = nn.functional.cross_entropy(model(tokens), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step", step, loss.item())


main()
