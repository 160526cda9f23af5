"""A transformer over random text in full precision. The arguments are its width and the number of sequences
in a batch: narrow and with few it is launches, wide and with many it computes.
"""

import sys

import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda")
width, sequences = int(sys.argv[1]), int(sys.argv[2])


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.rise, self.fall = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (p.unflatten(-1, (8, -1)).transpose(1, 2) for p in self.mix(self.norm_1(x)).chunk(3, -1))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.fall(nn.functional.gelu(self.rise(self.norm_2(x))))


model = nn.Sequential(
    nn.Embedding(256, width), *(Block() for _ in range(6)), nn.LayerNorm(width), nn.Linear(width, 256)
).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
text = torch.randint(0, 256, (1 << 20,), device=device)
reach = torch.arange(257, device=device)
while True:
    starts = torch.randint(0, len(text) - 257, (sequences, 1), device=device)
    batch = text[starts + reach]
    optimizer.zero_grad()
    logits = model(batch[:, :-1])
    nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten()).backward()
    optimizer.step()
