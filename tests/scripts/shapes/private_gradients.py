"""Differential privacy: hooks keep each sample's gradient at its parameter, clip it and add noise."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CLIP, NOISE = 1.0, 0.4


def count(layer, inputs, output):
    if layer.training and torch.is_grad_enabled():
        layer.inputs = inputs[0].detach().to(output.dtype)
        for parameter in layer.parameters():
            parameter.passes += 1


def keep(layer, gradients, outputs):
    (of_output,) = outputs
    of_samples = {"weight": torch.einsum("no,ni->noi", of_output, layer.inputs), "bias": of_output}
    for name, parameter in layer.named_parameters():
        parameter.passes -= 1
        parameter.grad_sample = of_samples[name] * len(of_output)  # the loss is a mean


class PrivateSGD(torch.optim.SGD):
    def step(self):
        parameters = [parameter for group in self.param_groups for parameter in group["params"]]
        assert all(parameter.passes == 0 for parameter in parameters)
        norms = torch.stack([parameter.grad_sample.flatten(1).norm(dim=1) for parameter in parameters]).norm(
            dim=0
        )
        factors = (CLIP / (norms + 1e-6)).clamp(max=1.0)
        for parameter in parameters:
            clipped = torch.einsum("n,n...->...", factors, parameter.grad_sample)
            noise = torch.normal(0.0, NOISE * CLIP, clipped.shape)
            parameter.grad = ((clipped + noise) / len(factors)).to(parameter.dtype)
            parameter.grad_sample = None
        super().step()


def main():
    torch.manual_seed(0)
    inputs = torch.randn(640, 12)
    data = TensorDataset(inputs, (inputs.sum(1) > 0).long())
    model = nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 2))
    for parameter in model.parameters():
        parameter.passes, parameter.grad_sample = 0, None
    for layer in model:
        if isinstance(layer, nn.Linear):
            layer.register_forward_hook(count)
            layer.register_full_backward_hook(keep)
    optimizer = PrivateSGD(model.parameters(), lr=0.3)
    step = 0
    for _ in range(7):
        for x, y in DataLoader(data, batch_size=32, shuffle=True):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            step += 1
            print(f"step {step} {loss.item()}")


if __name__ == "__main__":
    main()
