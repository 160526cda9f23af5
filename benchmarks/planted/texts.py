"""A small transformer learns the mood of short texts."""

import argparse

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

WORDS, PAD = 2000, 0


class Reviews(Dataset):
    """Texts of 5 to 30 words; a third of the words tell the class."""

    def __init__(self, n: int) -> None:
        generator = torch.Generator().manual_seed(0)
        self.labels = torch.randint(2, (n,), generator=generator)
        self.texts = []
        for label in self.labels:
            length = int(torch.randint(5, 31, (), generator=generator))
            words = torch.randint(2, WORDS, (length,), generator=generator)
            words[::3] = words[::3] // 2 * 2 + label.item()
            self.texts.append(words)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.texts[index], self.labels[index]


def collate(samples: list[tuple[torch.Tensor, torch.Tensor]]) -> tuple[torch.Tensor, torch.Tensor]:
    texts, labels = zip(*samples, strict=True)
    return pad_sequence(list(texts), batch_first=True, padding_value=PAD), torch.stack(labels)


class TextClassifier(nn.Module):
    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, width, padding_idx=PAD)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 2)

    def forward(self, texts: torch.Tensor) -> torch.Tensor:
        padding = texts == PAD
        hidden = self.encoder(self.words(texts), src_key_padding_mask=padding)
        return self.head(hidden[:, 0])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1000)
    arguments = parser.parse_args()

    torch.manual_seed(0)
    loader = DataLoader(Reviews(320), batch_size=16, shuffle=True, collate_fn=collate)
    model = TextClassifier()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, fused=True)
    for epoch in range(arguments.epochs):
        total = 0.0
        for texts, labels in loader:
            loss = nn.functional.cross_entropy(model(texts), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: loss {total / len(loader):.4f}")


if __name__ == "__main__":
    main()
