"""No DataLoader: batches are random slices of one long tensor of characters."""

import torch
import torch.nn as nn
from torch.nn import functional as F

batch_size = 16
block_size = 12
max_iters = 150

torch.manual_seed(0)
text = "she sells sea shells by the sea shore, and the shells she sells are sea shells. " * 20
chars = sorted(set(text))
stoi = {ch: i for i, ch in enumerate(chars)}
data = torch.tensor([stoi[c] for c in text])


def get_batch():
    ix = torch.randint(len(data) - block_size, (batch_size,))
    x = torch.stack([data[i : i + block_size] for i in ix])
    y = torch.stack([data[i + 1 : i + block_size + 1] for i in ix])
    return x, y


class BigramLanguageModel(nn.Module):
    def __init__(self, vocab_size):
        super().__init__()
        self.token_embedding_table = nn.Embedding(vocab_size, vocab_size)

    def forward(self, idx, targets):
        logits = self.token_embedding_table(idx)
        B, T, C = logits.shape
        loss = F.cross_entropy(logits.view(B * T, C), targets.view(B * T))
        return logits, loss


model = BigramLanguageModel(len(chars))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-2)

for iter in range(max_iters):
    xb, yb = get_batch()
    logits, loss = model(xb, yb)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    print(f"step {iter + 1} {loss.item()}")
