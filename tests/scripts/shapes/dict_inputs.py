"""Batches are dicts and the model takes them as keywords: model(**batch)."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class Tokens(Dataset):
    def __init__(self, n, length=10):
        lengths = torch.randint(4, length + 1, (n, 1))
        self.mask = (torch.arange(length) < lengths).long()
        self.ids = torch.randint(1, 40, (n, length)) * self.mask
        self.labels = (self.ids[:, 0] > 20).long()

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return {
            "input_ids": self.ids[index],
            "attention_mask": self.mask[index],
            "labels": self.labels[index],
        }


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(40, 24)
        self.attention = nn.MultiheadAttention(24, 2, batch_first=True)
        self.out = nn.Linear(24, 2)

    def forward(self, input_ids, attention_mask):
        h = self.embed(input_ids)
        a, _ = self.attention(h, h, h, key_padding_mask=attention_mask == 0, need_weights=False)
        return self.out((h + a)[:, 0])


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Classifier().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    step = 0
    for _epoch in range(3):
        for batch in DataLoader(Tokens(640), batch_size=16, shuffle=True):
            batch = {k: v.to(device) for k, v in batch.items()}
            labels = batch.pop("labels")
            logits = model(**batch)
            loss = nn.functional.cross_entropy(logits, labels)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            print(f"step {step} {loss.item()}")


if __name__ == "__main__":
    main()
