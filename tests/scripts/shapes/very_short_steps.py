"""Steps of well under two milliseconds, and a report only every hundredth."""

import torch

torch.manual_seed(0)
x = torch.randn(256, 4)
y = x @ torch.tensor([[1.0], [-2.0], [3.0], [0.5]]) + 1

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.003)
for step in range(1, 1501):
    i = torch.randint(0, 256, (8,))
    loss = torch.nn.functional.mse_loss(model(x[i]), y[i])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(f"step {step} {loss.item()}")
