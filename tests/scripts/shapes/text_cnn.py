"""Convolutions over padded words, and the largest of all positions, padding included."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Sentences(Dataset):
    def __init__(self, n, max_len=32):
        self.x = torch.zeros(n, max_len, dtype=torch.long)
        self.y = torch.randint(2, (n,))
        for i in range(n):
            length = int(torch.randint(2, 12, (1,)))
            self.x[i, :length] = torch.randint(1, 30, (length,)) + 30 * self.y[i]

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class TextCNN(nn.Module):
    def __init__(self, vocab=61, dim=16, filters=24, sizes=(2, 3, 4)):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.convs = nn.ModuleList([nn.Conv1d(dim, filters, size) for size in sizes])
        self.fc = nn.Linear(filters * len(sizes), 2)

    def forward(self, x):
        x = self.embed(x).permute(0, 2, 1)
        pooled = [torch.relu(conv(x)).max(dim=2).values for conv in self.convs]
        return self.fc(torch.cat(pooled, dim=1))


def main():
    torch.manual_seed(0)
    loader = DataLoader(Sentences(480), batch_size=16, shuffle=True)
    model = TextCNN()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    step = 0
    for _ in range(5):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            step += 1
            print("step", step, loss.item())


if __name__ == "__main__":
    main()
