"""A small training that gives every exact technique for CPUs something to do, all of it in ``main()``."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIZE, WIDTH = 160, 24


class Captioned(Dataset):
    """Pictures, each with a text that is padded."""

    def __init__(self, seed):
        drawn = torch.Generator().manual_seed(seed)
        self.pictures = torch.rand(SIZE, 8, 8, 3, generator=drawn)
        self.lengths = torch.randint(3, 12, (SIZE,), generator=drawn)
        self.texts = torch.randint(2, 30, (SIZE, WIDTH), generator=drawn)

    def __len__(self):
        return SIZE

    def __getitem__(self, index):
        text = self.texts[index].clone()
        text[self.lengths[index] :] = 0
        picture = (self.pictures[index] - 0.5).permute(2, 0, 1)
        return picture, text, int(self.texts[index, 0] % 2)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.inner, self.outer = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        return x + self.outer(F.gelu(self.inner(self.norm(x))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 16, 3, padding=1)
        self.words = nn.Embedding(30, 16, padding_idx=0)
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(32, 2)

    def forward(self, picture, text):
        seen = F.relu(self.norm(self.first(picture)))
        seen = F.relu(self.second(F.avg_pool2d(seen, 2))).mean((2, 3))
        mask = (text != 0).unsqueeze(-1).float()
        read = self.words(text)
        for block in self.blocks:
            read = block(read)
        read = (read * mask).sum(1) / mask.sum(1)
        return self.head(torch.cat([seen, read], dim=1))


def main():
    torch.manual_seed(0)
    torch.autograd.set_detect_anomaly(True)
    model = Net()
    groups = [{"params": [parameter], "weight_decay": 1e-3} for parameter in model.parameters()]
    optimizer = torch.optim.SGD(groups, lr=0.05, momentum=0.9)
    loader = DataLoader(Captioned(1), batch_size=16, shuffle=True, num_workers=WORKERS)
    held_out = DataLoader(Captioned(2), batch_size=32)
    kept = []
    for epoch in range(3):
        model.train()
        for picture, text, label in loader:
            optimizer.zero_grad(set_to_none=False)
            loss = F.cross_entropy(model(picture, text), label)
            loss.backward()
            optimizer.step()
            kept.append([{number: [number]} for number in range(4000)])
            print("loss", loss.item())
        model.eval()
        total = sum(F.cross_entropy(model(p, t), y).item() for p, t, y in held_out)
        print("held out", total)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, f"epoch{epoch}.pt")
    print("weights", sum(p.double().abs().sum().item() for p in torch.load("epoch2.pt")["model"].values()))


WORKERS = 0
main()
