"""SGD that is given a closure: forward and backward run inside optimizer.step."""

import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)

features = torch.randn(600, 8)
targets = torch.sin(features.sum(dim=1, keepdim=True))
loader = DataLoader(TensorDataset(features, targets), batch_size=20, shuffle=True)

model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
loss_fn = torch.nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

step = 0
for _epoch in range(5):
    for input, target in loader:

        def closure():
            optimizer.zero_grad()
            output = model(input)
            loss = loss_fn(output, target)
            loss.backward()
            return loss

        loss = optimizer.step(closure)
        step += 1
        print("step", step, loss.item())
