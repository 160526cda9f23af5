"""An LSTM forecasts a series: each sample is a window of it, and what comes next."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class SeriesDataset(Dataset):
    def __init__(self, series, lookback, transform=None):
        self.series = series
        self.lookback = lookback
        self.transform = transform

    def __len__(self):
        return len(self.series) - self.lookback

    def __getitem__(self, idx):
        window = torch.tensor(self.series[idx : idx + self.lookback], dtype=torch.float32)
        target = torch.tensor(self.series[idx + self.lookback], dtype=torch.float32)
        if self.transform:
            window = self.transform(window)
        return window, target


class Forecaster(nn.Module):
    def __init__(self, hidden=16):
        super().__init__()
        self.lstm = nn.LSTM(2, hidden, batch_first=True)
        self.linear = nn.Linear(hidden, 2)

    def forward(self, x):
        out, _ = self.lstm(x)
        return self.linear(out[:, -1])


torch.set_num_threads(1)  # too small for more
torch.manual_seed(0)
time = np.arange(1012) / 9
series = np.stack([np.sin(time), np.cos(1.3 * time)], axis=1)
train_set = SeriesDataset(series, lookback=12)
train_loader = DataLoader(train_set, batch_size=25, shuffle=True)
model = Forecaster()
criterion = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

step = 0
for _epoch in range(4):
    model.train()
    for inputs, targets in train_loader:
        optimizer.zero_grad()
        loss = criterion(model(inputs), targets)
        loss.backward()
        optimizer.step()
        step += 1
        print("step", step, loss.item())
