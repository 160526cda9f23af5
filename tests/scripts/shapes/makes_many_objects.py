"""Makes thousands of Python objects in each step, so that the collector of garbage runs often."""

import torch
from torch import nn

torch.manual_seed(0)
vocabulary = {f"word{i}": i for i in range(50)}
words = list(vocabulary)
model = nn.Sequential(nn.EmbeddingBag(50, 16), nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
corpus = [[{"word": words[(i * j) % 50], "at": [j]} for j in range(1, 40)] for i in range(400)]

for step in range(1, 151):
    sentences = [corpus[(16 * step + i) % 400] for i in range(16)]
    tokens = [
        [{"id": vocabulary[token["word"]], "of": [token]} for token in sentence] for sentence in sentences
    ]
    x = torch.tensor([[token["id"] for token in sentence] for sentence in tokens])
    y = (x.sum(dim=1) % 2).long()
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    print("step", step, loss.item())
