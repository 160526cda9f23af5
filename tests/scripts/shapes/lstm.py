"""An LSTM that classifies sequences."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class Tagger(nn.Module):
    def __init__(self, features, hidden, classes):
        super().__init__()
        self.lstm = nn.LSTM(features, hidden, batch_first=True)
        self.fc = nn.Linear(hidden, classes)

    def forward(self, x):
        out, _ = self.lstm(x)
        return self.fc(out[:, -1])


torch.set_num_threads(1)  # too small for more
torch.manual_seed(0)
sequences = torch.randn(800, 10, 4)
labels = (sequences.sum(dim=(1, 2)) > 0).long()
loader = DataLoader(TensorDataset(sequences, labels), batch_size=25, shuffle=True)
model = Tagger(4, 24, 2)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
criterion = nn.CrossEntropyLoss()

step = 0
for _epoch in range(4):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        step += 1
        print("step", step, loss.item())
