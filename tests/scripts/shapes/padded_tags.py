"""Tags for the words of padded sentences: tuples of ids, mask and labels, and a loss that ignores -100."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

MAX_LENGTH = 40
TAGS = 5


def sentences(n):
    lengths = torch.randint(4, 14, (n, 1))
    mask = (torch.arange(MAX_LENGTH) < lengths).long()
    ids = torch.randint(1, 60, (n, MAX_LENGTH)) * mask
    labels = (ids % TAGS).masked_fill(mask == 0, -100)
    return TensorDataset(ids, mask, labels)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(60, 32, padding_idx=0)
        layer = nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.classifier = nn.Linear(32, TAGS)

    def forward(self, ids, mask):
        return self.classifier(self.encoder(self.embedding(ids), src_key_padding_mask=~mask.bool()))


def main():
    torch.manual_seed(0)
    loader = DataLoader(sentences(480), batch_size=16, shuffle=True)
    model = Tagger()
    criterion = nn.CrossEntropyLoss(ignore_index=-100)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    step = 0
    for _epoch in range(5):
        for ids, mask, labels in loader:
            logits = model(ids, mask)
            loss = criterion(logits.view(-1, TAGS), labels.view(-1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            print("step", step, loss.item())


if __name__ == "__main__":
    main()
