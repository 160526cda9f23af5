"""Sequence to sequence with attention: a decoder is called for each word, and there are two optimizers."""

import random

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
LENGTH, WORDS, HIDDEN = 6, 15, 24


class EncoderRNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.gru = nn.Embedding(WORDS, HIDDEN), nn.GRU(HIDDEN, HIDDEN, batch_first=True)

    def forward(self, inputs):
        return self.gru(self.embedding(inputs))


class AttnDecoderRNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.attention = nn.Embedding(WORDS, HIDDEN), nn.Linear(2 * HIDDEN, 1)
        self.gru = nn.GRU(2 * HIDDEN, HIDDEN, batch_first=True)
        self.out = nn.Linear(HIDDEN, WORDS)

    def forward(self, word, hidden, seen):
        embedded = self.embedding(word)
        query = hidden.permute(1, 0, 2).expand_as(seen)
        weights = F.softmax(self.attention(torch.cat([query, seen], dim=-1)), dim=1)
        context = (weights * seen).sum(1, keepdim=True)
        output, hidden = self.gru(torch.cat([embedded, context], dim=2), hidden)
        return F.log_softmax(self.out(output), dim=-1), hidden


def main():
    torch.manual_seed(0)
    random.seed(0)
    encoder, decoder = EncoderRNN(), AttnDecoderRNN()
    encoder_optimizer = torch.optim.Adam(encoder.parameters(), lr=3e-3)
    decoder_optimizer = torch.optim.Adam(decoder.parameters(), lr=3e-3)
    criterion = nn.NLLLoss()
    for step in range(1, 81):
        source = torch.randint(1, WORDS, (16, LENGTH))
        target = source.flip(1)
        encoder_optimizer.zero_grad()
        decoder_optimizer.zero_grad()
        seen, hidden = encoder(source)
        word, outputs = torch.zeros(16, 1, dtype=torch.long), []
        forced = random.random() < 0.5
        for at in range(LENGTH):
            output, hidden = decoder(word, hidden, seen)
            outputs.append(output)
            word = target[:, at : at + 1] if forced else output.argmax(-1).detach()
        loss = criterion(torch.cat(outputs, dim=1).view(-1, WORDS), target.reshape(-1))
        loss.backward()
        encoder_optimizer.step()
        print("step", 2 * step - 1, loss.item())
        decoder_optimizer.step()
        print("step", 2 * step, loss.item())


if __name__ == "__main__":
    main()
