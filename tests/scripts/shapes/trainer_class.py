"""A Trainer class of its own, with callbacks."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Callback:
    def on_epoch_begin(self, trainer): ...

    def on_step_end(self, trainer, loss): ...

    def on_epoch_end(self, trainer): ...


class PrintLoss(Callback):
    def on_step_end(self, trainer, loss):
        print(f"step {trainer.global_step} {loss}")


class BestWeights(Callback):
    """Keeps the weights of the epoch with the lowest validation loss."""

    best = float("inf")

    def on_epoch_end(self, trainer):
        score = trainer.validate()
        print(f"valid {score:.5f}")
        if score < self.best:
            self.best = score
            self.state = {k: v.clone() for k, v in trainer.model.state_dict().items()}


class Trainer:
    def __init__(self, model, optimizer, callbacks, max_epochs):
        self.model = model
        self.optimizer = optimizer
        self.callbacks = callbacks
        self.max_epochs = max_epochs
        self.global_step = 0

    def call(self, event, *args):
        for callback in self.callbacks:
            getattr(callback, event)(self, *args)

    def training_step(self, batch):
        x, y = batch
        return nn.functional.mse_loss(self.model(x), y)

    @torch.inference_mode()
    def validate(self):
        self.model.eval()
        losses = [self.training_step(batch).item() for batch in self.valid_loader]
        self.model.train()
        return sum(losses) / len(losses)

    def fit(self, train_loader, valid_loader):
        self.valid_loader = valid_loader
        self.model.train()
        for _ in range(self.max_epochs):
            self.call("on_epoch_begin")
            for batch in train_loader:
                self.optimizer.zero_grad()
                loss = self.training_step(batch)
                loss.backward()
                self.optimizer.step()
                self.global_step += 1
                self.call("on_step_end", loss.item())
            self.call("on_epoch_end")


def make_loader(n, shuffle):
    x = torch.randn(n, 6)
    return DataLoader(TensorDataset(x, x.relu().sum(dim=1, keepdim=True)), batch_size=24, shuffle=shuffle)


if __name__ == "__main__":
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))
    trainer = Trainer(
        net, torch.optim.Adam(net.parameters(), lr=1e-2), [PrintLoss(), BestWeights()], max_epochs=5
    )
    trainer.fit(make_loader(720, shuffle=True), make_loader(120, shuffle=False))
