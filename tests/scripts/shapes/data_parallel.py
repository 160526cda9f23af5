"""The model is wrapped in DataParallel, which on a CPU passes everything through."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

input_size = 5
output_size = 2
batch_size = 30
data_size = 900

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)


class RandomDataset(Dataset):
    def __init__(self, size, length):
        self.len = length
        self.data = torch.randn(length, size)

    def __getitem__(self, index):
        x = self.data[index]
        return x, torch.stack([x.max(), x.min()])

    def __len__(self):
        return self.len


class Model(nn.Module):
    def __init__(self, input_size, output_size):
        super().__init__()
        self.hidden = nn.Linear(input_size, 32)
        self.fc = nn.Linear(32, output_size)

    def forward(self, input):
        return self.fc(torch.relu(self.hidden(input)))


rand_loader = DataLoader(RandomDataset(input_size, data_size), batch_size=batch_size, shuffle=True)
model = nn.DataParallel(Model(input_size, output_size))
model.to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

step = 0
for _epoch in range(5):
    for data, target in rand_loader:
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(data), target)
        loss.backward()
        optimizer.step()
        step += 1
        print("step", step, loss.item())
