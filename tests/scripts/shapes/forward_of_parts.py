"""A translation model whose forward is called itself, and its last layer by the loss. A generator makes the
batches; it is evaluated with a stand-in for the optimizer.
"""

import math

import torch
import torch.nn as nn
from torch.optim.lr_scheduler import LambdaLR

VOCABULARY, PADDING = 11, 0


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.linears = heads, nn.ModuleList([nn.Linear(width, width) for _ in range(4)])
        self.dropout = nn.Dropout(0.1)

    def forward(self, query, memory, mask):
        def split(linear, x):
            return linear(x).view(len(x), -1, self.heads, x.size(-1) // self.heads).transpose(1, 2)

        q, k, v = (split(one, x) for one, x in zip(self.linears, (query, memory, memory)))  # noqa: B905
        scores = (q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))).masked_fill(~mask.unsqueeze(1), -1e9)
        found = self.dropout(scores.softmax(-1)) @ v
        return self.linears[-1](found.transpose(1, 2).reshape(query.shape))


class Translator(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.source, self.target = nn.Embedding(VOCABULARY, width), nn.Embedding(VOCABULARY, width)
        self.encoder, self.decoder, self.across = (Attention(width, 4) for _ in range(3))
        self.generator = nn.Sequential(nn.Linear(width, VOCABULARY), nn.LogSoftmax(-1))

    def forward(self, source, target, source_mask, target_mask):
        return self.decode(self.encode(source, source_mask), source_mask, target, target_mask)

    def encode(self, source, mask):
        x = self.source(source)
        return x + self.encoder(x, x, mask)

    def decode(self, memory, source_mask, target, target_mask):
        x = self.target(target)
        x = x + self.decoder(x, x, target_mask)
        return x + self.across(x, memory, source_mask)


class NoOptimizer(torch.optim.Optimizer):
    def __init__(self):
        self.param_groups = [{"lr": 0.0}]

    def step(self):
        pass

    def zero_grad(self, set_to_none=False):
        pass


def batches(count):
    for _ in range(count):
        data = torch.randint(1, VOCABULARY, (40, 9))
        target, causal = data[:, :-1], torch.ones(8, 8, dtype=torch.bool).tril()
        yield (
            data, target, (data != PADDING).unsqueeze(-2), (target != PADDING).unsqueeze(-2) & causal,
            data[:, 1:],
        )  # fmt: skip


def run_epoch(data, model, optimizer, train):
    global step
    for source, target, source_mask, target_mask, wanted in data:
        out = model.forward(source, target, source_mask, target_mask)
        said = model.generator(out)
        smooth = torch.full_like(said, 0.01).scatter_(2, wanted.unsqueeze(2), 0.9)
        loss = nn.functional.kl_div(said, smooth, reduction="batchmean")
        if train:
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step()
            step += 1
            print("step", step, loss.item())


torch.manual_seed(0)
model, step = Translator(), 0
optimizer = torch.optim.Adam(model.parameters(), lr=0.5, betas=(0.9, 0.98))
scheduler = LambdaLR(optimizer, lambda n: 32**-0.5 * min(max(n, 1) ** -0.5, max(n, 1) * 40**-1.5))
for _ in range(6):
    model.train()
    run_epoch(batches(25), model, optimizer, train=True)
    model.eval()
    with torch.no_grad():
        run_epoch(batches(5), model, NoOptimizer(), train=False)
