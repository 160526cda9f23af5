"""A small convolutional network on images, read one by one from a dataset, trained with Adam."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Stripes(Dataset):
    """Grey images of 16x16 with stripes across, down or on the diagonal."""

    def __init__(self, size):
        generator = torch.Generator().manual_seed(1)
        self.labels = torch.randint(3, (size,), generator=generator)
        self.shifts = torch.randint(4, (size,), generator=generator)
        self.noise = torch.randint(0, 64, (size, 16, 16), generator=generator, dtype=torch.uint8)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        row, column = torch.meshgrid(torch.arange(16), torch.arange(16), indexing="ij")
        along = (row, column, row + column)[int(self.labels[index])]
        stripes = ((along + self.shifts[index]) % 4 < 2) * 160
        image = (stripes + self.noise[index]).float() / 255
        return (image.unsqueeze(0) - 0.4) / 0.3, self.labels[index]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1)
        self.fc = nn.Linear(16 * 4 * 4, 3)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc(torch.flatten(x, 1))


def main():
    torch.manual_seed(0)
    loader = DataLoader(Stripes(512), batch_size=16, shuffle=True)
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    step = 0
    for _epoch in range(5):
        for images, labels in loader:
            optimizer.zero_grad()
            loss = criterion(model(images), labels)
            loss.backward()
            optimizer.step()
            step += 1
            print(f"step {step} {loss.item()}")


if __name__ == "__main__":
    main()
