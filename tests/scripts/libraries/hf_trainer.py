"""A tiny BERT that classifies made-up token sequences, trained by the Trainer of transformers."""

import os
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

LENGTH = 24
WORDS = 200


class Sentences(Dataset):
    """The label says in which half of the vocabulary most words lie."""

    def __init__(self, samples):
        generator = torch.Generator().manual_seed(1)
        self.words = torch.randint(3, WORDS, (samples, LENGTH), generator=generator)
        self.lengths = torch.randint(LENGTH // 2, LENGTH + 1, (samples,), generator=generator)

    def __len__(self):
        return len(self.words)

    def __getitem__(self, index):
        mask = (torch.arange(LENGTH) < self.lengths[index]).long()
        words = self.words[index] * mask
        label = (words > WORDS // 2).sum() * 2 > mask.sum()
        return {"input_ids": words, "attention_mask": mask, "labels": label.long()}


class PrintLoss(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs is not None and "loss" in logs:
            print("step", state.global_step, logs["loss"])


def main():
    set_seed(0)
    config = BertConfig(
        vocab_size=WORDS,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=LENGTH,
        num_labels=2,
    )
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            num_train_epochs=3,
            per_device_train_batch_size=16,
            per_device_eval_batch_size=64,
            learning_rate=1e-3,
            eval_strategy="epoch",
            save_strategy="epoch",
            logging_steps=1,
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
            seed=0,
        )
        trainer = Trainer(
            model=BertForSequenceClassification(config),
            args=arguments,
            train_dataset=Sentences(16 * 40),
            eval_dataset=Sentences(64),
            callbacks=[PrintLoss()],
        )
        trainer.train()


if __name__ == "__main__":
    main()
