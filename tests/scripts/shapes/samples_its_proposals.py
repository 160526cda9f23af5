"""A detector in small: how many proposals are positive decides how many random numbers are drawn."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(12, 48), nn.ReLU())
        self.scores = nn.Linear(48, 20)
        self.offsets = nn.Linear(48, 20)

    def forward(self, pictures, targets):
        features = self.features(pictures)
        scores, offsets = self.scores(features), self.offsets(features)
        positive = (scores.detach() > 0).nonzero()
        chosen = positive[torch.randperm(len(positive))[:64]]
        at = chosen[:, 0], chosen[:, 1]
        return {
            "scores": nn.functional.binary_cross_entropy_with_logits(scores, targets),
            "offsets": nn.functional.mse_loss(offsets[at], targets[at]),
        }


def main():
    torch.manual_seed(0)
    pictures = torch.randn(320, 12)
    targets = (pictures @ torch.randn(12, 20) > 0).float()
    loader = DataLoader(TensorDataset(pictures, targets), batch_size=16, shuffle=True)
    model = Detector()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    step = 0
    for _ in range(8):
        for batch, wanted in loader:
            step += 1
            losses = model(batch, wanted)
            loss = sum(losses.values())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(f"step {step} {loss.item()}")


if __name__ == "__main__":
    main()
