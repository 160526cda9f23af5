"""The transfer learning tutorial: phases by set_grad_enabled, the best weights are saved and read back."""

import os
from tempfile import TemporaryDirectory

import torch
import torch.nn as nn
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, TensorDataset


def make(size, seed):
    drawn = torch.Generator().manual_seed(seed)
    images = torch.rand(size, 3, 12, 12, generator=drawn)
    return TensorDataset(images, (images[:, 0].mean((1, 2)) > images[:, 1].mean((1, 2))).long())


def train_model(model, criterion, optimizer, scheduler, loaders, sizes, epochs):
    step = 0
    with TemporaryDirectory() as folder:
        best_path, best = os.path.join(folder, "best.pt"), 0.0
        torch.save(model.state_dict(), best_path)
        for epoch in range(epochs):
            for phase in ["train", "val"]:
                if phase == "train":
                    model.train()
                else:
                    model.eval()
                running_loss, running_corrects = 0.0, 0
                for inputs, labels in loaders[phase]:
                    optimizer.zero_grad()
                    with torch.set_grad_enabled(phase == "train"):
                        outputs = model(inputs)
                        _, preds = torch.max(outputs, 1)
                        loss = criterion(outputs, labels)
                        if phase == "train":
                            loss.backward()
                            optimizer.step()
                            step += 1
                            print("step", step, loss.item())
                    running_loss += loss.item() * inputs.size(0)
                    running_corrects += torch.sum(preds == labels.data)
                if phase == "train":
                    scheduler.step()
                accuracy = running_corrects.double() / sizes[phase]
                print(f"{phase} {epoch} loss {running_loss / sizes[phase]} accuracy {accuracy}")
                if phase == "val" and accuracy > best:
                    best = accuracy
                    torch.save(model.state_dict(), best_path)
        model.load_state_dict(torch.load(best_path, weights_only=True))
    return model


torch.manual_seed(0)
backbone = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.AvgPool2d(3))
for param in backbone.parameters():
    param.requires_grad = False
model_conv = nn.Sequential(backbone, nn.Flatten(), nn.Linear(16 * 16, 2))
data = {"train": make(320, 1), "val": make(160, 2)}
dataloaders = {name: DataLoader(data[name], batch_size=8, shuffle=True) for name in data}
optimizer_conv = torch.optim.SGD(model_conv[2].parameters(), lr=0.01, momentum=0.9)
exp_lr_scheduler = lr_scheduler.StepLR(optimizer_conv, step_size=2, gamma=0.1)
sizes = {name: len(data[name]) for name in data}
train_model(model_conv, nn.CrossEntropyLoss(), optimizer_conv, exp_lr_scheduler, dataloaders, sizes, 4)
