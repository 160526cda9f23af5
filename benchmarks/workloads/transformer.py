"""A small transformer over random text: many element by element operators between its products."""

import torch
from torch import nn

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.rise, self.fall = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            part.unflatten(-1, (4, -1)).transpose(1, 2) for part in self.mix(self.norm_1(x)).chunk(3, -1)
        )
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.fall(nn.functional.gelu(self.rise(self.norm_2(x))))


model = nn.Sequential(
    nn.Embedding(96, 64), *(Block(64) for _ in range(4)), nn.LayerNorm(64), nn.Linear(64, 96)
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
text = torch.randint(0, 96, (65536,))
while True:
    starts = torch.randint(0, len(text) - 65, (16,)).tolist()
    batch = torch.stack([text[start : start + 65] for start in starts])
    optimizer.zero_grad()
    logits = model(batch[:, :-1])
    nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten()).backward()
    optimizer.step()
