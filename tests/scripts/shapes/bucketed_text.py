"""A recurrent classifier, its texts batched by length by an iterator of the script's own, the time first."""

import random

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence

torch.set_num_threads(1)


class BucketIterator:
    def __init__(self, data, batch_size, shuffle=True):
        self.data, self.batch_size, self.shuffle = data, batch_size, shuffle

    def __iter__(self):
        data = sorted(self.data, key=lambda pair: len(pair[0]))
        batches = [data[i : i + self.batch_size] for i in range(0, len(data), self.batch_size)]
        if self.shuffle:
            random.shuffle(batches)
        for batch in batches:
            batch = sorted(batch, key=lambda pair: -len(pair[0]))
            lengths = torch.tensor([len(text) for text, _ in batch])
            text = pad_sequence([text for text, _ in batch], padding_value=1)
            yield text, lengths, torch.tensor([label for _, label in batch])


class RNN(nn.Module):
    def __init__(self, vocab_size=60, embedding_dim=16, hidden_dim=24):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim, padding_idx=1)
        self.rnn = nn.LSTM(embedding_dim, hidden_dim, num_layers=2, bidirectional=True)
        self.fc = nn.Linear(hidden_dim * 2, 1)

    def forward(self, text, text_lengths):
        packed = nn.utils.rnn.pack_padded_sequence(self.embedding(text), text_lengths.to("cpu"))
        _, (hidden, _) = self.rnn(packed)
        return self.fc(torch.cat((hidden[-2], hidden[-1]), dim=1))


random.seed(0)
torch.manual_seed(0)
data = []
for _ in range(480):
    text = torch.randint(2, 60, (random.randint(3, 60),))
    data.append((text, float(text[0] > 30)))
iterator = BucketIterator(data, 16)
model = RNN()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
criterion = nn.BCEWithLogitsLoss()
step = 0
for _epoch in range(5):
    for text, lengths, label in iterator:
        optimizer.zero_grad()
        loss = criterion(model(text, lengths).squeeze(1), label)
        loss.backward()
        optimizer.step()
        step += 1
        print("step", step, loss.item())
