"""A small GPT's way: batches are drawn by hand, and gradients of several are gathered for one step."""

import torch
from torch import nn
from torch.nn import functional as F

batch_size, block_size, accumulation_steps = 8, 16, 4


class Model(nn.Module):
    def __init__(self, vocabulary=12, width=24):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.mix = nn.Linear(width, width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, idx, targets=None):
        x = self.embedding(idx)
        x = x + torch.tanh(self.mix(x.cumsum(dim=1)))
        logits = self.head(x)
        loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))
        return logits, loss


torch.manual_seed(0)
data = torch.arange(4000) % 11 + (torch.rand(4000) < 0.05).long()


def get_batch():
    starts = torch.randint(len(data) - block_size - 1, (batch_size,))
    x = torch.stack([data[i : i + block_size] for i in starts])
    y = torch.stack([data[i + 1 : i + 1 + block_size] for i in starts])
    return x, y


model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
x, y = get_batch()
for step in range(1, 121):
    for _ in range(accumulation_steps):
        logits, loss = model(x, y)
        loss = loss / accumulation_steps
        x, y = get_batch()
        loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    print("step", step, loss.item())
