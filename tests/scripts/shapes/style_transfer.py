"""A picture is trained by LBFGS, with its usual 20 evaluations a step: each of 12 turns is one step of it."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class ContentLoss(nn.Module):
    def __init__(self, target):
        super().__init__()
        self.target = target.detach()

    def forward(self, input):
        self.loss = F.mse_loss(input, self.target)
        return input


class StyleLoss(nn.Module):
    def __init__(self, target):
        super().__init__()
        self.target = gram(target).detach()

    def forward(self, input):
        self.loss = F.mse_loss(gram(input), self.target)
        return input


def gram(input):
    features = input.view(input.size(1), -1)
    return features @ features.t() / features.numel()


content, style = torch.rand(1, 3, 24, 24), torch.rand(1, 3, 24, 24)
first, second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
model = nn.Sequential(first, StyleLoss(first(style)), nn.ReLU(), second)
content_loss, style_loss = ContentLoss(model(content)), model[1]
model.add_module("content", content_loss)
model.requires_grad_(False).eval()

picture = content.clone().requires_grad_()
optimizer = torch.optim.LBFGS([picture], tolerance_grad=0, tolerance_change=0, max_eval=20)
run = 0
for _ in range(12):

    def closure():
        global run
        with torch.no_grad():
            picture.clamp_(0, 1)
        optimizer.zero_grad()
        model(picture)
        loss = 1e5 * style_loss.loss + content_loss.loss
        loss.backward()
        run += 1
        print("step", run, loss.item())
        return loss

    optimizer.step(closure)
