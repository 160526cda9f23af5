"""A competition's notebook: folds, a GradScaler that is off, early stopping, the best weights read back."""

import copy

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class CFG:
    folds, epochs, batch_size, lr, patience, seed = 3, 4, 16, 1e-2, 2, 42


class TabularDataset(Dataset):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, idx):
        return {
            "x": torch.tensor(self.x[idx], dtype=torch.float),
            "y": torch.tensor(self.y[idx], dtype=torch.float),
        }


class Net(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.layers = nn.Sequential(
            nn.BatchNorm1d(features), nn.Linear(features, 48), nn.PReLU(), nn.Dropout(0.1), nn.Linear(48, 1)
        )

    def forward(self, x):
        return self.layers(x)


STEPS = []


def train_fn(model, optimizer, scaler, loss_fn, loader):
    model.train()
    for batch in loader:
        optimizer.zero_grad()
        with torch.autocast("cpu", enabled=False):
            loss = loss_fn(model(batch["x"]), batch["y"].view(-1, 1))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        STEPS.append(loss.item())
        print("step", len(STEPS), loss.item())


def valid_fn(model, loss_fn, loader):
    model.eval()
    total, preds = 0.0, []
    for batch in loader:
        with torch.no_grad():
            outputs = model(batch["x"])
        total += loss_fn(outputs, batch["y"].view(-1, 1)).item()
        preds.append(outputs.sigmoid().detach().cpu().numpy())
    return total / len(loader), np.concatenate(preds)


def main():
    torch.manual_seed(CFG.seed)
    rng = np.random.default_rng(CFG.seed)
    x = rng.normal(size=(360, 10))
    y = (x[:, 0] * x[:, 1] + 0.3 * rng.normal(size=360) > 0).astype(int)
    fold = rng.integers(0, CFG.folds, 360)
    oof = np.zeros(360)
    for f in range(CFG.folds):
        train = DataLoader(TabularDataset(x[fold != f], y[fold != f]), CFG.batch_size, shuffle=True)
        valid = DataLoader(TabularDataset(x[fold == f], y[fold == f]), 2 * CFG.batch_size)
        model = Net(10)
        optimizer = torch.optim.Adam(model.parameters(), lr=CFG.lr, weight_decay=1e-5)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
        scaler = torch.amp.GradScaler("cpu", enabled=False)
        best, left, state = np.inf, CFG.patience, None
        for _ in range(CFG.epochs):
            train_fn(model, optimizer, scaler, nn.BCEWithLogitsLoss(), train)
            value, preds = valid_fn(model, nn.BCEWithLogitsLoss(), valid)
            scheduler.step(value)
            if value < best:
                best, left, state = value, CFG.patience, copy.deepcopy(model.state_dict())
                oof[fold == f] = preds.ravel()
            else:
                left -= 1
                if left == 0:
                    break
        model.load_state_dict(state)
        print("fold", f, best)
    print("out of fold", ((oof > 0.5) == y).mean())


if __name__ == "__main__":
    main()
