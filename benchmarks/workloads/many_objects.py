"""A million Python objects are kept for the whole run, and each step makes twenty thousand more: epochs of
100 steps, over a part of the texts each.
"""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, RandomSampler

WORDS = 1000


class Sentences(Dataset):
    """Each word is a list of its own, as tokenizers make them that keep offsets."""

    def __init__(self, sentences: int, words: int) -> None:
        generator = torch.Generator().manual_seed(0)
        drawn = torch.randint(WORDS, (sentences, words), generator=generator).tolist()
        self.sentences = [[[word, place] for place, word in enumerate(sentence)] for sentence in drawn]

    def __len__(self) -> int:
        return len(self.sentences)

    def __getitem__(self, index: int) -> list[list[int]]:
        return self.sentences[index]


def bags(sentences: list[list[list[int]]]) -> tuple[torch.Tensor, torch.Tensor]:
    """How often each word is next to another one, by the last figure of both."""
    pairs = [[(a, b) for a in sentence for b in sentence[:20]] for sentence in sentences]
    figures = torch.tensor([[a[0] * b[0] % 10 for a, b in those] for those in pairs])
    counts = nn.functional.one_hot(figures, 10).float().mean(dim=1)
    return counts, torch.tensor([sentence[0][0] % 2 for sentence in sentences])


parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=20)
arguments = parser.parse_args()
torch.manual_seed(0)
sentences = Sentences(20_000, 50)
sampler = RandomSampler(sentences, num_samples=2000)
loader = DataLoader(sentences, batch_size=20, sampler=sampler, collate_fn=bags)
model = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 2))
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(arguments.epochs):
    for counts, labels in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(counts), labels)
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.4f}")
