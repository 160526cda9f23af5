"""A convolutional network over words, after Kim (2014): kernels of 3, 4 and 5 words span the whole word
vector. Texts of 50 words lie in memory as numbers of words.
"""

import torch
from torch import nn

words, width, length, channels = 5_000, 100, 50, 100
torch.manual_seed(0)


class TextCNN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.convolutions = nn.ModuleList(nn.Conv2d(1, channels, (size, width)) for size in (3, 4, 5))
        self.dropout = nn.Dropout(0.5)
        self.output = nn.Linear(3 * channels, 2)

    def forward(self, texts: torch.Tensor) -> torch.Tensor:
        x = self.embedding(texts).unsqueeze(1)
        found = [torch.relu(convolve(x)).squeeze(3).amax(dim=2) for convolve in self.convolutions]
        logits: torch.Tensor = self.output(self.dropout(torch.cat(found, dim=1)))
        return logits


model = TextCNN()
optimizer = torch.optim.Adam(model.parameters())
texts = torch.randint(words, (2048, length))
labels = (texts[:, 0] > words // 2).long()
while True:
    for chosen in torch.randperm(len(texts)).split(64):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(texts[chosen]), labels[chosen])
        loss.backward()
        optimizer.step()
