"""A tiny GPT-2 that learns made-up text, by the Trainer of transformers with gradient accumulation."""

import os
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from torch.utils.data import Dataset
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

LENGTH = 16
WORDS = 64


class Text(Dataset):
    """Each token follows from the one before by adding a step that is the sequence's own."""

    def __init__(self, samples):
        generator = torch.Generator().manual_seed(1)
        first = torch.randint(0, WORDS, (samples, 1), generator=generator)
        step = torch.randint(1, 4, (samples, 1), generator=generator)
        self.tokens = (first + step * torch.arange(LENGTH)) % WORDS

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        return {"input_ids": self.tokens[index], "labels": self.tokens[index]}


class PrintLoss(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs is not None and "loss" in logs:
            print("step", state.global_step, logs["loss"])


def main():
    set_seed(0)
    config = GPT2Config(
        vocab_size=WORDS, n_positions=LENGTH, n_embd=32, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0
    )
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            max_steps=100,
            per_device_train_batch_size=4,
            gradient_accumulation_steps=4,
            learning_rate=3e-3,
            lr_scheduler_type="cosine",
            warmup_steps=10,
            save_strategy="no",
            logging_steps=1,
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
            seed=0,
        )
        trainer = Trainer(
            model=GPT2LMHeadModel(config),
            args=arguments,
            train_dataset=Text(16 * 50),
            callbacks=[PrintLoss()],
        )
        trainer.train()


if __name__ == "__main__":
    main()
