"""A text classifier as Hugging Face's: dicts of ids, mask and labels, all padded to one length."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

PAD, CLS, SEP = 0, 1, 2
MAX_LENGTH = 48


class Reviews(Dataset):
    def __init__(self, n):
        g = torch.Generator().manual_seed(0)
        self.items = []
        for _ in range(n):
            label = int(torch.randint(2, (1,), generator=g))
            length = int(torch.randint(3, 16, (1,), generator=g))
            words = torch.randint(3, 40, (length,), generator=g) + 40 * label
            ids = [CLS, *words.tolist(), SEP]
            padding = MAX_LENGTH - len(ids)
            self.items.append(
                {
                    "input_ids": torch.tensor(ids + [PAD] * padding),
                    "attention_mask": torch.tensor([1] * len(ids) + [0] * padding),
                    "token_type_ids": torch.zeros(MAX_LENGTH, dtype=torch.long),
                    "labels": torch.tensor(label),
                }
            )

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class Classifier(nn.Module):
    def __init__(self, vocabulary=83, width=32, heads=2, layers=2, dropout=0.1):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width, padding_idx=PAD)
        self.places = nn.Embedding(MAX_LENGTH, width)
        self.kinds = nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width)
        layer = nn.TransformerEncoderLayer(width, heads, 2 * width, dropout, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 2)

    def forward(self, input_ids, attention_mask, token_type_ids=None, labels=None):
        places = torch.arange(input_ids.size(1), device=input_ids.device)
        hidden = self.words(input_ids) + self.places(places)
        if token_type_ids is not None:
            hidden = hidden + self.kinds(token_type_ids)
        hidden = self.encoder(self.norm(hidden), src_key_padding_mask=attention_mask == 0)
        logits = self.head(hidden[:, 0])
        loss = nn.functional.cross_entropy(logits, labels) if labels is not None else None
        return {"loss": loss, "logits": logits}


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(Reviews(480), batch_size=16, shuffle=True)
    model = Classifier().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    step = 0
    for _epoch in range(5):
        model.train()
        for batch in loader:
            batch = {key: value.to(device) for key, value in batch.items()}
            outputs = model(**batch)
            optimizer.zero_grad()
            outputs["loss"].backward()
            optimizer.step()
            step += 1
            print("step", step, outputs["loss"].item())


if __name__ == "__main__":
    main()
