"""Small trainings of other kinds than plain convolutional networks, as tutorials write them: ``kinds.py NAME
--seed N``. Pictures are of Fashion-MNIST; texts are drawn: each token follows from the two before it, mostly.
"""

import argparse

import torch
from fashion_pictures import pictures_and_labels
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

TOKENS, LENGTH = 64, 32


def texts(count):
    generator = torch.Generator().manual_seed(1)
    follows = torch.randint(TOKENS, (TOKENS, TOKENS), generator=generator)
    rows = [torch.randint(TOKENS, (count,), generator=generator) for _ in range(2)]
    for _ in range(LENGTH - 1):
        drawn = torch.randint(TOKENS, (count,), generator=generator)
        kept = torch.rand(count, generator=generator) < 0.8
        rows.append(torch.where(kept, follows[rows[-2], rows[-1]], drawn))
    return torch.stack(rows[1:], dim=1)


def batches(*tensors):
    for _ in range(100):
        yield from DataLoader(TensorDataset(*tensors), batch_size=32, shuffle=True)


# ---- of texts
class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, 32)
        self.body = kind(32, 64, num_layers=2, dropout=0.2, batch_first=True)
        self.head = nn.Linear(64, TOKENS)

    def forward(self, tokens):
        return self.head(self.body(self.embedding(tokens))[0])


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, 64)
        self.places = nn.Parameter(0.02 * torch.randn(LENGTH, 64))
        layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.1, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(64, TOKENS)

    def forward(self, tokens):
        length = tokens.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        return self.head(self.body(self.embedding(tokens) + self.places[:length], mask=mask))


def next_token(model, optimizer, clip=None):
    for (tokens,) in batches(texts(2000)):
        optimizer.zero_grad()
        logits = model(tokens[:, :-1])
        functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()


def lstm():
    model = Recurrent(nn.LSTM)
    next_token(model, torch.optim.Adam(model.parameters(), lr=2e-3), clip=1.0)


def gru():
    model = Recurrent(nn.GRU)
    next_token(model, torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9), clip=0.25)


def transformer():
    model = Transformer()
    next_token(model, torch.optim.AdamW(model.parameters(), lr=1e-3))


def embedding_bag():
    """A classifier of bags of tokens, by the token that follows."""
    model = nn.Sequential(nn.EmbeddingBag(TOKENS, 32, mode="mean"), nn.Linear(32, TOKENS))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9)
    for (tokens,) in batches(texts(2000)):
        optimizer.zero_grad()
        functional.cross_entropy(model(tokens[:, :-1]), tokens[:, -1]).backward()
        optimizer.step()


# ---- of pictures
def perceptron():
    pictures, labels = pictures_and_labels()
    model = nn.Sequential(
        *(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Dropout(0.5)),
        *(nn.Linear(256, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10)),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for inputs, targets in batches(pictures, labels):
        optimizer.zero_grad()
        functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()


def gan_of_linear_layers():
    generator = nn.Sequential(
        *(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 256), nn.BatchNorm1d(256), nn.ReLU()),
        *(nn.Linear(256, 784), nn.Tanh()),
    )
    critic = nn.Sequential(
        *(nn.Linear(784, 256), nn.LeakyReLU(0.2), nn.Dropout(0.3), nn.Linear(256, 128), nn.LeakyReLU(0.2)),
        *(nn.Linear(128, 1), nn.Sigmoid()),
    )
    adversarial(generator, critic, lambda count: torch.randn(count, 32), (784,), nn.BCELoss())


def gan_of_convolutions():
    generator = nn.Sequential(
        *(nn.ConvTranspose2d(32, 32, 7, bias=False), nn.BatchNorm2d(32), nn.ReLU()),
        *(nn.ConvTranspose2d(32, 16, 4, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()),
        *(nn.ConvTranspose2d(16, 1, 4, 2, 1), nn.Tanh()),
    )
    critic = nn.Sequential(
        *(nn.Conv2d(1, 16, 4, 2, 1), nn.LeakyReLU(0.2)),
        *(nn.Conv2d(16, 32, 4, 2, 1, bias=False), nn.BatchNorm2d(32), nn.LeakyReLU(0.2)),
        *(nn.Flatten(), nn.Linear(32 * 49, 1)),
    )
    noise = lambda count: torch.randn(count, 32, 1, 1)  # noqa: E731
    adversarial(generator, critic, noise, (1, 28, 28), nn.BCEWithLogitsLoss())


def adversarial(generator, critic, noise, shape, criterion):
    of_generator = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    of_critic = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.5, 0.999))
    pictures, _ = pictures_and_labels()
    for (real,) in batches(pictures.clamp(-1, 1)):
        true, false = torch.ones(len(real), 1), torch.zeros(len(real), 1)
        made = generator(noise(len(real)))
        of_critic.zero_grad()
        loss = criterion(critic(real.view(-1, *shape)), true) + criterion(critic(made.detach()), false)
        loss.backward()
        of_critic.step()
        of_generator.zero_grad()
        criterion(critic(made), true).backward()
        of_generator.step()


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 32))
        self.decoder = nn.Sequential(nn.Linear(16, 128), nn.ReLU(), nn.Linear(128, 784), nn.Sigmoid())

    def forward(self, pictures):
        mean, log_variance = self.encoder(pictures).chunk(2, dim=1)
        drawn = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        return self.decoder(drawn), mean, log_variance


def variational_autoencoder():
    pictures, _ = pictures_and_labels()
    model = Autoencoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for (inputs,) in batches((pictures * 0.353 + 0.286).clamp(0, 1)):
        optimizer.zero_grad()
        made, mean, log_variance = model(inputs)
        likelihood = functional.binary_cross_entropy(made, inputs.flatten(1), reduction="sum")
        divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum()
        ((likelihood + divergence) / len(inputs)).backward()
        optimizer.step()


KINDS = {
    "LSTM": lstm,
    "GRU, SGD with momentum": gru,
    "transformer with dropout": transformer,
    "embedding bag, SGD with momentum": embedding_bag,
    "perceptron with dropout": perceptron,
    "GAN of linear layers": gan_of_linear_layers,
    "GAN of convolutions": gan_of_convolutions,
    "variational autoencoder": variational_autoencoder,
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=KINDS)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    KINDS[arguments.name]()


if __name__ == "__main__":
    main()
