"""Neural style transfer: a picture is trained by LBFGS, through a network that is frozen."""

import torch
from torch import nn

torch.manual_seed(0)
features = nn.Sequential(
    nn.Conv2d(3, 12, 3, padding=1),
    nn.ReLU(),
    nn.Conv2d(12, 12, 3, padding=1),
    nn.ReLU(),
    nn.AvgPool2d(2),
    nn.Conv2d(12, 24, 3, padding=1),
).eval()
for p in features.parameters():
    p.requires_grad_(False)


def gram(x):
    flat = x.view(x.size(1), -1)
    return flat @ flat.t() / flat.numel()


content, style = torch.rand(1, 3, 24, 24), torch.rand(1, 3, 24, 24).cumsum(-1) / 12
wanted, style_wanted = features(content).detach(), gram(features(style)).detach()
picture = content.clone().requires_grad_(True)
optimizer = torch.optim.LBFGS([picture], lr=0.5, max_iter=3)
for step in range(1, 121):

    def closure():
        with torch.no_grad():
            picture.clamp_(0, 1)
        optimizer.zero_grad()
        seen = features(picture)
        style_loss = 1e8 * nn.functional.mse_loss(gram(seen), style_wanted)
        loss = style_loss + 1e3 * nn.functional.mse_loss(seen, wanted)
        loss.backward()
        return loss

    print("step", step, optimizer.step(closure).item())
