"""A LightningModule with automatic optimization, fitted and validated by the Trainer."""

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.save_hyperparameters()
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(144, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 10)
        )

    def forward(self, x):
        return self.layers(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = nn.functional.cross_entropy(self(x), y)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        accuracy = (self(x).argmax(dim=1) == y).float().mean()
        self.log("val_accuracy", accuracy)

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=2e-3)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
        return [optimizer], [scheduler]


class PrintLoss(L.Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        print("step", trainer.global_step, outputs["loss"].item())


class Digits(L.LightningDataModule):
    def setup(self, stage):
        generator = torch.Generator().manual_seed(1)
        y = torch.randint(0, 10, (1600,), generator=generator)
        x = torch.randn(1600, 1, 12, 12, generator=generator) + y.view(-1, 1, 1, 1) / 5
        self.train, self.val = TensorDataset(x[:1280], y[:1280]), TensorDataset(x[1280:], y[1280:])

    def train_dataloader(self):
        return DataLoader(self.train, batch_size=32, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.val, batch_size=64)


def main():
    L.seed_everything(0)
    trainer = L.Trainer(
        max_epochs=3,
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[PrintLoss()],
    )
    trainer.fit(Classifier(), datamodule=Digits())


if __name__ == "__main__":
    main()
