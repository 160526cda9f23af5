"""Layer by layer, then as a whole, the model is called to print shapes before there is anything to train."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __init__(self, count):
        generator = torch.Generator().manual_seed(1)
        self.pixels = torch.randint(0, 256, (count, 1, 8, 8), dtype=torch.uint8, generator=generator)

    def __getitem__(self, i):
        image = self.pixels[i].float() / 255
        return image, int(image.mean() > 0.5)

    def __len__(self):
        return len(self.pixels)


torch.manual_seed(0)
net = nn.Sequential(
    nn.Conv2d(1, 4, kernel_size=3, padding=1), nn.Sigmoid(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(64, 2)
)
X = torch.rand(size=(1, 1, 8, 8), dtype=torch.float32)
for layer in net:
    X = layer(X)
    print(layer.__class__.__name__, "output shape: \t", X.shape)
print(net(torch.rand(2, 1, 8, 8)).shape)

train_iter = DataLoader(Images(400), batch_size=20, shuffle=True)
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
loss = nn.CrossEntropyLoss()
step = 0
for _epoch in range(7):
    net.train()
    for x, y in train_iter:
        optimizer.zero_grad()
        l = loss(net(x), y)  # noqa: E741
        l.backward()
        optimizer.step()
        step += 1
        print("step", step, l.item())
