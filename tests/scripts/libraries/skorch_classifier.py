"""A scikit-learn style classifier of skorch, fitted to a made-up table."""

import numpy as np
import torch
from sklearn.datasets import make_classification
from skorch import NeuralNetClassifier
from skorch.callbacks import Callback
from torch import nn


class Mlp(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.dense0 = nn.Linear(20, hidden)
        self.dropout = nn.Dropout(0.3)
        self.dense1 = nn.Linear(hidden, hidden)
        self.output = nn.Linear(hidden, 2)

    def forward(self, x):
        x = self.dropout(torch.relu(self.dense0(x)))
        x = torch.relu(self.dense1(x))
        return torch.softmax(self.output(x), dim=-1)


class PrintLoss(Callback):
    def on_train_begin(self, net, **kwargs):
        self.step = 0

    def on_batch_end(self, net, batch=None, training=None, **kwargs):
        if training:
            self.step += 1
            print("step", self.step, net.history[-1, "batches", -1, "train_loss"])


def main():
    torch.manual_seed(0)
    x, y = make_classification(1000, 20, n_informative=10, random_state=0)
    net = NeuralNetClassifier(
        Mlp,
        max_epochs=5,
        lr=0.1,
        batch_size=32,
        optimizer=torch.optim.SGD,
        optimizer__momentum=0.9,
        iterator_train__shuffle=True,
        callbacks=[PrintLoss()],
        verbose=0,
    )
    net.fit(x.astype(np.float32), y.astype(np.int64))
    print(f"accuracy {net.score(x.astype(np.float32), y):.3f}")


if __name__ == "__main__":
    main()
