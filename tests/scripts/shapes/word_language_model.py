"""A word language model: its hidden state goes from batch to batch, and weights are updated by hand."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
WORDS, BPTT, COLUMNS = 40, 12, 10


class RNNModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop, self.encoder = nn.Dropout(0.2), nn.Embedding(WORDS, 32)
        self.rnn, self.decoder = nn.LSTM(32, 32, 2, dropout=0.2), nn.Linear(32, WORDS)
        self.decoder.weight = self.encoder.weight

    def forward(self, inputs, hidden):
        output, hidden = self.rnn(self.drop(self.encoder(inputs)), hidden)
        return F.log_softmax(self.decoder(self.drop(output)).view(-1, WORDS), dim=1), hidden


def batchify(data):
    rows = data.size(0) // COLUMNS
    return data[: rows * COLUMNS].view(COLUMNS, -1).t().contiguous()


def get_batch(source, i):
    length = min(BPTT, len(source) - 1 - i)
    return source[i : i + length], source[i + 1 : i + 1 + length].view(-1)


def evaluate(model, source):
    model.eval()
    total, hidden = 0.0, None
    with torch.no_grad():
        for i in range(0, source.size(0) - 1, BPTT):
            data, targets = get_batch(source, i)
            output, hidden = model(data, hidden)
            total += len(data) * F.nll_loss(output, targets).item()
    return total / (len(source) - 1)


def main():
    torch.manual_seed(0)
    text = (torch.arange(7500) * 7 % WORDS + torch.randint(2, (7500,))) % WORDS
    train, held_out = batchify(text[:6000]), batchify(text[6000:])
    model, rate, best, step = RNNModel(), 2.0, None, 0
    for epoch in range(3):
        model.train()
        hidden = None
        for i in range(0, train.size(0) - 1, BPTT):
            data, targets = get_batch(train, i)
            model.zero_grad()
            hidden = None if hidden is None else tuple(h.detach() for h in hidden)
            output, hidden = model(data, hidden)
            loss = F.nll_loss(output, targets)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
            for p in model.parameters():
                p.data.add_(p.grad, alpha=-rate)
            step += 1
            print("step", step, loss.item())
        value = evaluate(model, held_out)
        print("epoch", epoch, math.exp(value))
        if best is None or value < best:
            best = value
        else:
            rate /= 4.0


main()
