"""A transformer encoder that learns to sort out the most frequent token."""

import math

import torch
from torch import nn, optim


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=64):
        super().__init__()
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, d_model)
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[: x.size(1)]


class TransformerModel(nn.Module):
    def __init__(self, ntoken, d_model=32, nhead=4, nlayers=2, dropout=0.1):
        super().__init__()
        self.embedding = nn.Embedding(ntoken, d_model)
        self.pos_encoder = PositionalEncoding(d_model)
        layer = nn.TransformerEncoderLayer(d_model, nhead, 64, dropout, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, nlayers)
        self.decoder = nn.Linear(d_model, ntoken)

    def forward(self, src):
        return self.decoder(self.encoder(self.pos_encoder(self.embedding(src))).mean(dim=1))


def batch(size, length=12, tokens=6):
    answer = torch.randint(tokens, (size,))
    src = torch.randint(tokens, (size, length))
    src[:, ::2] = answer.unsqueeze(1)
    return src, answer


def main():
    torch.manual_seed(0)
    model = TransformerModel(ntoken=6)
    optimizer = optim.AdamW(model.parameters(), lr=2e-3)
    model.train()
    for step in range(1, 131):
        src, answer = batch(16)
        loss = nn.functional.cross_entropy(model(src), answer)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        print("step", step, loss.item())


if __name__ == "__main__":
    main()
