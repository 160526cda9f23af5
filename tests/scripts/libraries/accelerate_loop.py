"""A small CNN on made-up images, in a loop of its own that Accelerate prepares."""

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
        )
        self.head = nn.Linear(32, 10)

    def forward(self, images):
        return self.head(self.features(images).flatten(1))


def images(samples, seed):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 10, (samples,), generator=generator)
    pictures = torch.randn(samples, 3, 16, 16, generator=generator) + labels.view(-1, 1, 1, 1) / 5
    return TensorDataset(pictures, labels)


def main():
    accelerator = Accelerator(cpu=True)
    set_seed(0)

    train_loader = DataLoader(images(1280, seed=1), batch_size=32, shuffle=True)
    test_loader = DataLoader(images(256, seed=2), batch_size=64)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=120)
    model, optimizer, train_loader, test_loader, scheduler = accelerator.prepare(
        model, optimizer, train_loader, test_loader, scheduler
    )

    step = 0
    for epoch in range(3):
        model.train()
        for pictures, labels in train_loader:
            output = model(pictures)
            loss = nn.functional.cross_entropy(output, labels)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            step += 1
            accelerator.print("step", step, loss.item())

        model.eval()
        right = total = 0
        for pictures, labels in test_loader:
            with torch.no_grad():
                guesses = model(pictures).argmax(dim=-1)
            guesses, labels = accelerator.gather_for_metrics((guesses, labels))
            right += (guesses == labels).sum().item()
            total += len(labels)
        accelerator.print(f"epoch {epoch}: accuracy {right / total:.3f}")


if __name__ == "__main__":
    main()
