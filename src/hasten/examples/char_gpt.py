"""Train a small character-level GPT on Jane Austen's Persuasion.

The first nine tenths of the novel beside this file are trained on, the last tenth is for validation.
"""

import argparse
import gzip
import math
import time
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser(description="Train a character-level GPT on a novel.")
parser.add_argument("--steps", type=int, default=400)
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--block-size", type=int, default=64, help="characters the model sees at once")
parser.add_argument("--lr", type=float, default=3e-3, help="learning rate at the end of the warm-up")
parser.add_argument("--dropout", type=float, default=0.0)
parser.add_argument("--eval-interval", type=int, default=100, help="steps between two validations")
parser.add_argument("--seed", type=int, default=None)
parser.add_argument("--device", default=None, help="such as cpu or cuda; else the accelerator, if there is one")
args = parser.parse_args()
device = args.device or torch.accelerator.current_accelerator(check_available=True) or "cpu"

# model
n_layer = 4
n_head = 4
n_embd = 128
# optimizer
weight_decay = 0.1
betas = (0.9, 0.99)
grad_clip = 1.0
# learning rate
warmup_steps = 40
min_lr = args.lr / 10
# output
log_interval = 20

if args.seed is not None:
    torch.manual_seed(args.seed)


# ---------------------------------------------------------------------------------------------------
# data

data_file = Path(__file__).resolve().parent / "data" / "persuasion" / "persuasion.txt.gz"
with gzip.open(data_file, "rt", encoding="ascii") as file:
    text = file.read()

chars = sorted(set(text))
vocab_size = len(chars)
stoi = {c: i for i, c in enumerate(chars)}
data = torch.tensor([stoi[c] for c in text], dtype=torch.long)

n = int(0.9 * len(data))
train_data = data[:n]
val_data = data[n:]


def get_batch():
    """Draw random pieces of the training text, and the same pieces one character later."""
    offsets = torch.randint(len(train_data) - args.block_size, (args.batch_size,))
    x = torch.stack([train_data[i : i + args.block_size] for i in offsets])
    y = torch.stack([train_data[i + 1 : i + 1 + args.block_size] for i in offsets])
    return x.to(device), y.to(device)


# ---------------------------------------------------------------------------------------------------
# model


class CausalSelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(n_embd, 3 * n_embd)
        self.proj = nn.Linear(n_embd, n_embd)
        self.resid_dropout = nn.Dropout(args.dropout)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(x).split(n_embd, dim=2)
        q = q.view(B, T, n_head, C // n_head).transpose(1, 2)
        k = k.view(B, T, n_head, C // n_head).transpose(1, 2)
        v = v.view(B, T, n_head, C // n_head).transpose(1, 2)
        dropout = args.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.resid_dropout(self.proj(y))


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(n_embd, 4 * n_embd)
        self.gelu = nn.GELU()
        self.proj = nn.Linear(4 * n_embd, n_embd)
        self.dropout = nn.Dropout(args.dropout)

    def forward(self, x):
        return self.dropout(self.proj(self.gelu(self.fc(x))))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1 = nn.LayerNorm(n_embd)
        self.attn = CausalSelfAttention()
        self.ln_2 = nn.LayerNorm(n_embd)
        self.mlp = MLP()

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        x = x + self.mlp(self.ln_2(x))
        return x


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.token_embedding = nn.Embedding(vocab_size, n_embd)
        self.position_embedding = nn.Embedding(args.block_size, n_embd)
        self.dropout = nn.Dropout(args.dropout)
        self.blocks = nn.ModuleList([Block() for _ in range(n_layer)])
        self.ln_f = nn.LayerNorm(n_embd)
        self.lm_head = nn.Linear(n_embd, vocab_size, bias=False)
        self.apply(self._init_weights)

    def _init_weights(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, mean=0.0, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, idx, targets):
        positions = torch.arange(idx.size(1), device=idx.device)
        x = self.dropout(self.token_embedding(idx) + self.position_embedding(positions))
        for block in self.blocks:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        loss = F.cross_entropy(logits.view(-1, vocab_size), targets.view(-1))
        return logits, loss


model = GPT().to(device)
print(f"{len(text):,} characters, {vocab_size} of them different; "
      f"{sum(p.numel() for p in model.parameters()):,} parameters")


@torch.no_grad()
def evaluate():
    """Return the mean loss over the validation text, cut into pieces one after another."""
    model.eval()
    pieces = (len(val_data) - 1) // args.block_size
    x = val_data[: pieces * args.block_size].view(pieces, args.block_size)
    y = val_data[1 : pieces * args.block_size + 1].view(pieces, args.block_size)
    total = 0.0
    for xb, yb in zip(x.split(args.batch_size), y.split(args.batch_size)):
        _, loss = model(xb.to(device), yb.to(device))
        total += loss.item() * len(xb)
    model.train()
    return total / pieces


# ---------------------------------------------------------------------------------------------------
# optimizer

decay = [p for p in model.parameters() if p.dim() >= 2]
no_decay = [p for p in model.parameters() if p.dim() < 2]
optimizer = torch.optim.AdamW(
    [{"params": decay, "weight_decay": weight_decay}, {"params": no_decay, "weight_decay": 0.0}],
    lr=args.lr,
    betas=betas,
)


def get_lr(step):
    """Linear warm-up, then half a cosine down to min_lr."""
    if step < warmup_steps:
        return args.lr * (step + 1) / warmup_steps
    progress = (step - warmup_steps) / (args.steps - warmup_steps)
    return min_lr + 0.5 * (1 + math.cos(math.pi * progress)) * (args.lr - min_lr)


# ---------------------------------------------------------------------------------------------------
# training

start = time.perf_counter()
for step in range(args.steps):
    lr = get_lr(step)
    for group in optimizer.param_groups:
        group["lr"] = lr

    if step > 0 and step % args.eval_interval == 0:
        print(f"step {step}: validation loss {evaluate():.4f}")

    x, y = get_batch()
    logits, loss = model(x, y)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
    optimizer.step()

    if step % log_interval == 0:
        seconds = time.perf_counter() - start
        print(f"step {step}: loss {loss.item():.4f}, lr {lr:.2e}, {seconds:.1f} s")

print(f"loss {evaluate():.4f}")
