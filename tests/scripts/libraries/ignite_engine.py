"""A small CNN trained and evaluated by the engines of Ignite."""

import torch
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.metrics import Accuracy
from ignite.utils import manual_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 12, 3, padding=1)
        self.conv2 = nn.Conv2d(12, 24, 3, padding=1)
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(24 * 4 * 4, 10)

    def forward(self, x):
        x = nn.functional.max_pool2d(self.conv1(x).relu(), 2)
        x = nn.functional.max_pool2d(self.conv2(x).relu(), 2)
        return self.head(self.drop(x.flatten(1)))


def pictures(samples):
    y = torch.randint(0, 10, (samples,))
    return TensorDataset(torch.randn(samples, 1, 16, 16) + y.view(-1, 1, 1, 1) / 5, y)


def main():
    manual_seed(0)
    train_loader = DataLoader(pictures(1280), batch_size=32, shuffle=True)
    val_loader = DataLoader(pictures(256), batch_size=128)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    trainer = create_supervised_trainer(model, optimizer, nn.CrossEntropyLoss(), device="cpu")
    evaluator = create_supervised_evaluator(model, metrics={"accuracy": Accuracy()}, device="cpu")

    @trainer.on(Events.ITERATION_COMPLETED)
    def print_loss(engine):
        print("step", engine.state.iteration, engine.state.output)

    @trainer.on(Events.EPOCH_COMPLETED)
    def validate(engine):
        evaluator.run(val_loader)
        print(f"epoch {engine.state.epoch}: accuracy {evaluator.state.metrics['accuracy']:.3f}")

    trainer.run(train_loader, max_epochs=3)


if __name__ == "__main__":
    main()
