"""A loop as a trainer's: a few batches are validated before it trains, then four times in each epoch."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, model, validate_every, sanity_batches):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        self.validate_every, self.sanity_batches = validate_every, sanity_batches
        self.step = 0

    def fit(self, train_loader, valid_loader, epochs):
        self.validate(valid_loader, self.sanity_batches)
        for _epoch in range(epochs):
            for number, batch in enumerate(train_loader):
                self.train(batch)
                if (number + 1) % self.validate_every == 0:
                    self.validate(valid_loader)

    def train(self, batch):
        inputs, targets = batch
        loss = nn.functional.mse_loss(self.model(inputs), targets)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.step += 1
        print("step", self.step, loss.item())

    @torch.inference_mode()
    def validate(self, loader, limit=None):
        self.model.eval()
        for number, (inputs, targets) in enumerate(loader):
            if number == limit:
                break
            nn.functional.mse_loss(self.model(inputs), targets)
        self.model.train()


torch.manual_seed(0)
x = torch.randn(1080, 5)
y = x.prod(dim=1, keepdim=True)
train_set, valid_set = TensorDataset(x[:960], y[:960]), TensorDataset(x[960:], y[960:])
model = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 1))
trainer = Trainer(model, validate_every=10, sanity_batches=2)
trainer.fit(
    DataLoader(train_set, batch_size=24, shuffle=True), DataLoader(valid_set, batch_size=30), epochs=4
)
