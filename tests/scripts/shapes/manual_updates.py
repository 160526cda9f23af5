"""No optimizer: the parameters are updated by hand after each backward pass."""

import torch

torch.manual_seed(0)
N, D_in, H, D_out = 64, 20, 30, 5
x = torch.randn(N, D_in)
y = torch.randn(N, D_out)

model = torch.nn.Sequential(
    torch.nn.Linear(D_in, H),
    torch.nn.ReLU(),
    torch.nn.Linear(H, D_out),
)
loss_fn = torch.nn.MSELoss(reduction="sum")
learning_rate = 1e-3

for t in range(150):
    y_pred = model(x)
    loss = loss_fn(y_pred, y)
    print("step", t + 1, loss.item())
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for param in model.parameters():
            param -= learning_rate * param.grad
