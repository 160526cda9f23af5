"""Texts of 5 to 128 words, most of them short, all padded to 128 as a tutorial does it: a text classifier.

python padded_text.py            until it is stopped
python padded_text.py EPOCHS     so many, each with an evaluation
"""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)
MAX_LENGTH, WORDS, CLASSES = 128, 5000, 4
PAD, CLS, SEP = 0, 1, 2


class Reviews(Dataset):  # type: ignore[type-arg]
    """Lengths as those of sentences out of film reviews: half have fewer than 17 words, few more than 45."""

    def __init__(self, n: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.empty(n).log_normal_(2.8, 0.45, generator=generator)
        self.lengths = drawn.long().clamp(5, MAX_LENGTH - 2)
        self.labels = torch.randint(CLASSES, (n,), generator=generator)
        self.words = torch.randint(3, WORDS, (n, MAX_LENGTH), generator=generator)
        self.words[:, ::3] = (
            (self.words[:, ::3] // CLASSES) * CLASSES % (WORDS - 8) + self.labels[:, None] + 3
        )

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        length = int(self.lengths[i])
        ids = torch.full((MAX_LENGTH,), PAD)
        ids[0], ids[length + 1] = CLS, SEP
        ids[1 : length + 1] = self.words[i, :length]
        mask = (torch.arange(MAX_LENGTH) < length + 2).long()
        return {"input_ids": ids, "attention_mask": mask, "labels": self.labels[i]}


class TextClassifier(nn.Module):
    def __init__(self, width: int = 64, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, width, padding_idx=PAD)
        self.places = nn.Embedding(MAX_LENGTH, width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.1, "gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        hidden = self.words(input_ids) + self.places(torch.arange(input_ids.shape[1]))
        hidden = self.encoder(hidden, src_key_padding_mask=attention_mask == 0)
        logits: torch.Tensor = self.head(hidden[:, 0])
        return logits


train = DataLoader(Reviews(1024, 1), batch_size=16, shuffle=True)
test = DataLoader(Reviews(128, 2), batch_size=16)
model = TextClassifier()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
epochs = int(sys.argv[1]) if len(sys.argv) > 1 else None
epoch = 0
while epochs is None or epoch < epochs:
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
    epoch += 1
    print(f"epoch {epoch} loss {loss.item():.4f} accuracy {right / 128:.4f}", flush=True)
