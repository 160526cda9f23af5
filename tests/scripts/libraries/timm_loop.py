"""A tiny ResNet of timm on made-up pictures, in the loop of timm's own train script, without autocast."""

from contextlib import suppress

import numpy as np
import timm.utils
import torch
from PIL import Image
from timm.data import Mixup, create_loader
from timm.loss import SoftTargetCrossEntropy
from timm.models import create_model
from timm.optim import create_optimizer_v2
from timm.scheduler import create_scheduler_v2
from torch.utils.data import Dataset

CLASSES = 10
BATCH_SIZE = 16
EPOCHS = 3


class Pictures(Dataset):
    """Coloured noise; ``transform`` is set by create_loader."""

    def __init__(self, samples):
        random = np.random.default_rng(1)
        self.labels = random.integers(0, CLASSES, samples)
        self.pixels = random.integers(0, 160, (samples, 40, 40, 3), dtype=np.uint8)
        self.pixels += (self.labels * 9).astype(np.uint8)[:, None, None, None]
        self.transform = None

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        picture = Image.fromarray(self.pixels[index])
        if self.transform is not None:
            picture = self.transform(picture)
        return picture, int(self.labels[index])


def train_one_epoch(epoch, model, loader, optimizer, loss_fn, scheduler, mixup_fn, amp_autocast=suppress):
    losses = timm.utils.AverageMeter()
    model.train()
    updates = epoch * len(loader)
    optimizer.zero_grad()
    for inputs, target in loader:
        inputs, target = mixup_fn(inputs, target)
        with amp_autocast():
            output = model(inputs)
            loss = loss_fn(output, target)
        loss.backward()
        timm.utils.dispatch_clip_grad(model.parameters(), 1.0, mode="norm")
        optimizer.step()
        optimizer.zero_grad()
        losses.update(loss.item(), inputs.size(0))
        updates += 1
        scheduler.step_update(num_updates=updates, metric=losses.avg)
        print("step", updates, loss.item())
    return losses.avg


def main():
    timm.utils.random_seed(0, 0)
    model = create_model("test_resnet", pretrained=False, num_classes=CLASSES)
    optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3, weight_decay=0.05)
    loader = create_loader(
        Pictures(BATCH_SIZE * 40),
        input_size=(3, 32, 32),
        batch_size=BATCH_SIZE,
        is_training=True,
        use_prefetcher=False,
        num_workers=0,
        persistent_workers=False,
        pin_memory=False,
        device=torch.device("cpu"),
    )
    scheduler, _ = create_scheduler_v2(
        optimizer, sched="cosine", num_epochs=EPOCHS, warmup_epochs=0, updates_per_epoch=len(loader)
    )
    mixup_fn = Mixup(mixup_alpha=0.2, num_classes=CLASSES)
    for epoch in range(EPOCHS):
        average = train_one_epoch(
            epoch, model, loader, optimizer, SoftTargetCrossEntropy(), scheduler, mixup_fn
        )
        scheduler.step(epoch + 1, average)


if __name__ == "__main__":
    main()
