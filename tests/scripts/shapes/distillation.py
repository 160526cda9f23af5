"""Knowledge distillation: a teacher in eval mode under no_grad is part of each step of the student."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train(model, loader, steps, teacher=None, first=0):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    step = first
    while step < first + steps:
        model.train()
        for x, y in loader:
            logits = model(x)
            loss = F.cross_entropy(logits, y)
            if teacher is not None:
                teacher.eval()
                with torch.no_grad():
                    soft = F.softmax(teacher(x) / 2, dim=1)
                loss = 0.5 * loss + 0.5 * F.kl_div(
                    F.log_softmax(logits / 2, dim=1), soft, reduction="batchmean"
                )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            print("step", step, loss.item())


def main():
    torch.manual_seed(0)
    x = torch.randn(640, 16)
    y = x[:, :4].argmax(1)
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
    teacher = nn.Sequential(nn.Linear(16, 128), nn.ReLU(), nn.Linear(128, 4))
    student = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))
    train(teacher, loader, 60)
    train(student, loader, 80, teacher, first=60)


if __name__ == "__main__":
    main()
