"""Functional training: torch.func gives the gradients, the parameters are a plain dict."""

import torch
from torch import nn
from torch.func import functional_call, grad_and_value


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(6, 32)
        self.fc2 = nn.Linear(32, 1)

    def forward(self, x):
        return self.fc2(torch.tanh(self.fc1(x)))


def main():
    torch.manual_seed(0)
    model = Net()
    params = {name: p.detach() for name, p in model.named_parameters()}

    def compute_loss(params, x, y):
        return nn.functional.mse_loss(functional_call(model, params, (x,)), y)

    step_function = grad_and_value(compute_loss)
    for step in range(1, 151):
        x = torch.randn(40, 6)
        y = torch.sin(x[:, :1]) + x[:, 1:2]
        grads, loss = step_function(params, x, y)
        params = {name: p - 0.1 * grads[name] for name, p in params.items()}
        print(f"step {step} {loss.item()}")


if __name__ == "__main__":
    main()
