"""A recurrent classifier that is given lengths and packs its padded sequences."""

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


class LSTMClassifier(nn.Module):
    def __init__(self, vocab_size=60, hidden=24):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, hidden, padding_idx=0)
        self.lstm = nn.LSTM(hidden, hidden, batch_first=True)
        self.fc = nn.Linear(hidden, 2)

    def forward(self, text, text_lengths):
        packed = pack_padded_sequence(
            self.embedding(text), text_lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        _, (hidden, _) = self.lstm(packed)
        return self.fc(hidden[-1])


torch.manual_seed(0)
lengths = torch.randint(3, 12, (480,))
texts = torch.randint(1, 60, (480, 32)) * (torch.arange(32) < lengths.unsqueeze(1))
labels = (texts[:, 0] > 30).long()
loader = DataLoader(TensorDataset(texts, lengths, labels), batch_size=16, shuffle=True)
model = LSTMClassifier()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
step = 0
for _epoch in range(5):
    for text, text_lengths, label in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(text, text_lengths), label)
        loss.backward()
        optimizer.step()
        step += 1
        print("step", step, loss.item())
