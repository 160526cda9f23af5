"""Sequences of different lengths, padded to a batch by a collate function of its own."""

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

PAD = 0


class Review(torch.utils.data.Dataset):
    """Made-up reviews: good ones have more words from the upper half of the vocabulary."""

    def __init__(self, n, vocabulary=50):
        self.samples = []
        for _ in range(n):
            length = int(torch.randint(3, 15, ()))
            label = int(torch.randint(2, ()))
            half = vocabulary // 2
            words = torch.randint(1, half, (length,)) + (torch.rand(length) < 0.2 + 0.6 * label) * half
            self.samples.append((words, label))

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        return self.samples[index]


def collate(batch):
    words, labels = zip(*batch, strict=True)
    lengths = torch.tensor([len(w) for w in words])
    return pad_sequence(words, batch_first=True, padding_value=PAD), lengths, torch.tensor(labels)


class BagOfWords(nn.Module):
    def __init__(self, vocabulary=50, width=16):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width, padding_idx=PAD)
        self.out = nn.Linear(width, 2)

    def forward(self, words, lengths):
        return self.out(self.embedding(words).sum(dim=1) / lengths.unsqueeze(1))


if __name__ == "__main__":
    torch.manual_seed(0)
    loader = DataLoader(Review(800), batch_size=16, shuffle=True, collate_fn=collate)
    model = BagOfWords()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    step = 0
    for _epoch in range(3):
        model.train()
        for words, lengths, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(words, lengths), labels)
            loss.backward()
            optimizer.step()
            step += 1
            print(f"step {step} {loss.item()}")
