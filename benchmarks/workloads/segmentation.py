"""A small U-Net learns to find discs in noise; after each epoch it is validated, and the best one is saved.

python segmentation.py [--epochs N] [--seed N]
"""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, random_split

SIDE = 48


class Discs(Dataset):
    """Pictures and masks of (1, SIDE, SIDE), drawn when they are asked for, the same each time."""

    def __len__(self) -> int:
        return 640

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        generator = torch.Generator().manual_seed(index)
        y, x = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
        mask = torch.zeros(SIDE, SIDE)
        for _ in range(3):
            across, down, radius = torch.rand(3, generator=generator) * torch.tensor([SIDE, SIDE, 8.0])
            mask[(x - across) ** 2 + (y - down) ** 2 < (radius + 3) ** 2] = 1.0
        noise = torch.randn(SIDE, SIDE, generator=generator)
        return {"image": (mask + 0.8 * noise)[None], "mask": mask[None]}


class DoubleConv(nn.Sequential):
    def __init__(self, ins: int, outs: int) -> None:
        super().__init__(
            *(nn.Conv2d(ins, outs, 3, padding=1, bias=False), nn.BatchNorm2d(outs), nn.ReLU(inplace=True)),
            *(nn.Conv2d(outs, outs, 3, padding=1, bias=False), nn.BatchNorm2d(outs), nn.ReLU(inplace=True)),
        )


class UNet(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.inc = DoubleConv(1, width)
        self.down1 = DoubleConv(width, 2 * width)
        self.down2 = DoubleConv(2 * width, 4 * width)
        self.pool = nn.MaxPool2d(2)
        self.rise2 = nn.ConvTranspose2d(4 * width, 2 * width, 2, stride=2)
        self.up2 = DoubleConv(4 * width, 2 * width)
        self.rise1 = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.up1 = DoubleConv(2 * width, width)
        self.outc = nn.Conv2d(width, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x1 = self.inc(x)
        x2 = self.down1(self.pool(x1))
        x3 = self.down2(self.pool(x2))
        x = self.up2(torch.cat([x2, self.rise2(x3)], dim=1))
        return self.outc(self.up1(torch.cat([x1, self.rise1(x)], dim=1)))


@torch.inference_mode()
def validate(model: UNet, loader: DataLoader) -> float:
    """The intersection over the union of what is found and what is there."""
    model.eval()
    both = either = 0.0
    for batch in loader:
        found, mask = model(batch["image"]) > 0, batch["mask"] > 0.5
        both += (found & mask).sum().item()
        either += (found | mask).sum().item()
    return both / max(either, 1.0)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    train_set, val_set = random_split(Discs(), [512, 128], generator=torch.Generator().manual_seed(0))
    train_loader = DataLoader(train_set, batch_size=8, shuffle=True)
    val_loader = DataLoader(val_set, batch_size=8)
    model = UNet()
    criterion = nn.BCEWithLogitsLoss()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, weight_decay=1e-8, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, "max", patience=2)
    best = 0.0
    for epoch in range(1, arguments.epochs + 1):
        model.train()
        epoch_loss = 0.0
        for batch in train_loader:
            loss = criterion(model(batch["image"]), batch["mask"])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            epoch_loss += loss.item()
        iou = validate(model, val_loader)
        scheduler.step(iou)
        if iou > best:
            best = iou
            torch.save(model.state_dict(), "best.pt")
        print(f"epoch {epoch}: loss {epoch_loss / len(train_loader):.4f}, validation IoU {iou:.4f}")


if __name__ == "__main__":
    main()
