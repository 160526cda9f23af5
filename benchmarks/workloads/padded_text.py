"""Texts of 5 to 128 words, most of them short, all padded to 128 as a tutorial does it: a text classifier.

python padded_text.py                          until it is stopped
python padded_text.py --epochs N [--seed N]    so many, each with an evaluation
"""

import argparse
import itertools

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

MAX_LENGTH, WORDS, CLASSES = 128, 1000, 4
PAD, CLS, SEP = 0, 1, 2


class Reviews(Dataset):
    """Lengths as those of sentences out of film reviews: half have fewer than 17 words, few more than 45.

    A third of the words are of the text's class.
    """

    def __init__(self, n: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.empty(n).log_normal_(2.8, 0.45, generator=generator)
        lengths = drawn.long().clamp(5, MAX_LENGTH - 2)[:, None]
        self.labels = torch.randint(CLASSES, (n,), generator=generator)
        words = torch.randint(CLASSES, WORDS, (n, MAX_LENGTH), generator=generator)
        words[:, ::3] = words[:, ::3] // CLASSES * CLASSES + self.labels[:, None]
        places = torch.arange(MAX_LENGTH)
        words[:, 0] = CLS
        words = words.masked_fill(places == lengths + 1, SEP)
        self.masks = (places < lengths + 2).long()
        self.ids = words.masked_fill(self.masks == 0, PAD)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.ids[i], "attention_mask": self.masks[i], "labels": self.labels[i]}


class TextClassifier(nn.Module):
    def __init__(self, width: int = 128, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, width, padding_idx=PAD)
        self.places = nn.Embedding(MAX_LENGTH, width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.1, "gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        hidden = self.words(input_ids) + self.places(torch.arange(input_ids.shape[1]))
        hidden = self.encoder(hidden, src_key_padding_mask=attention_mask == 0)
        return self.head(hidden[:, 0])


parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, help="default: until it is stopped")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--texts", type=int, default=2048, help="to train on; a quarter as many to test on")
arguments = parser.parse_args()

torch.manual_seed(arguments.seed)
train = DataLoader(Reviews(arguments.texts, 1), batch_size=16, shuffle=True)
test = DataLoader(Reviews(arguments.texts // 4, 2), batch_size=16)
model = TextClassifier()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
for epoch in itertools.count(1) if arguments.epochs is None else range(1, arguments.epochs + 1):
    model.train()
    for batch in train:
        labels = batch.pop("labels")
        loss = nn.functional.cross_entropy(model(**batch), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        right = sum(
            int((model(batch["input_ids"], batch["attention_mask"]).argmax(1) == batch["labels"]).sum())
            for batch in test
        )
    accuracy = right / len(test.dataset)
    print(f"epoch {epoch}: loss {loss.item():.4f}, test accuracy {accuracy:.4f}", flush=True)

print(f"accuracy {accuracy:.4f}")
