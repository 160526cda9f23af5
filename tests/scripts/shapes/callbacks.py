"""A Learner in the manner of fast.ai: callbacks, exceptions that end an epoch, one-cycle, a rate finder."""

import copy
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


class CancelFitException(Exception):
    pass


class Callback:
    order = 0


class Printing(Callback):
    def after_batch(self, learn):
        if learn.training:
            learn.steps.append(1)
            print("step", len(learn.steps), learn.loss.item())


class Finder(Callback):
    def before_fit(self, learn):
        self.best = float("inf")

    def after_batch(self, learn):
        if learn.loss.item() > 3 * self.best:
            raise CancelFitException
        self.best = min(self.best, learn.loss.item())
        for group in learn.opt.param_groups:
            group["lr"] *= 1.4


class OneCycle(Callback):
    def before_fit(self, learn):
        steps = learn.epochs * len(learn.dls[0])
        self.schedule = optim.lr_scheduler.OneCycleLR(learn.opt, learn.lr, total_steps=steps)

    def after_batch(self, learn):
        if learn.training:
            self.schedule.step()


class Learner:
    def __init__(self, model, dls, loss_func, lr, cbs, opt_func=optim.SGD, steps=None):
        self.model, self.dls, self.loss_func, self.lr = model, dls, loss_func, lr
        self.cbs, self.opt_func, self.steps = cbs, opt_func, [] if steps is None else steps

    def __call__(self, name):
        for cb in sorted(self.cbs, key=lambda cb: cb.order):
            getattr(cb, name, lambda _: None)(self)

    def one_epoch(self, train):
        self.training = self.model.training
        self.dl = self.dls[0 if train else 1]
        for batch in self.dl:
            *self.xb, self.yb = batch
            self.preds = self.model(*self.xb)
            self.loss = self.loss_func(self.preds, self.yb)
            if self.training:
                self.loss.backward()
                self.opt.step()
                self.opt.zero_grad()
            self("after_batch")
        self("after_epoch")

    def fit(self, epochs, valid=True):
        self.epochs, self.opt = epochs, self.opt_func(self.model.parameters(), self.lr)
        self("before_fit")
        try:
            for self.epoch in range(epochs):
                self.model.train()
                self.one_epoch(True)
                if valid:
                    self.model.eval()
                    with torch.no_grad():
                        self.one_epoch(False)
                    print("valid", self.epoch, self.loss.item())
        except CancelFitException:
            pass


torch.manual_seed(0)
x = torch.randn(640, 14)
y = x[:, :5].argmax(1)
dls = [
    DataLoader(TensorDataset(x[:480], y[:480]), batch_size=16, shuffle=True),
    DataLoader(TensorDataset(x[480:], y[480:]), batch_size=32),
]
model = nn.Sequential(nn.Linear(14, 50), nn.ReLU(), nn.Linear(50, 5))
finder = Learner(copy.deepcopy(model), dls, F.cross_entropy, 1e-3, [Printing(), Finder()])
finder.fit(1, valid=False)
opt_func = partial(optim.AdamW, betas=(0.9, 0.99))
Learner(model, dls, F.cross_entropy, 2e-2, [Printing(), OneCycle()], opt_func, finder.steps).fit(4)
