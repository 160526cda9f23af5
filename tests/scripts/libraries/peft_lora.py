"""A tiny Llama whose base stays frozen while PEFT's LoRA matrices learn made-up text."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from peft import LoraConfig, TaskType, get_peft_model
from torch.utils.data import DataLoader, Dataset
from transformers import LlamaConfig, LlamaForCausalLM, get_linear_schedule_with_warmup, set_seed

LENGTH = 24
WORDS = 96


class Text(Dataset):
    def __init__(self, samples):
        generator = torch.Generator().manual_seed(1)
        first = torch.randint(0, WORDS, (samples, 1), generator=generator)
        self.tokens = (first + 5 * torch.arange(LENGTH)) % WORDS

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        tokens = self.tokens[index]
        return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": tokens.clone()}


def main():
    set_seed(0)
    config = LlamaConfig(
        vocab_size=WORDS,
        hidden_size=48,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=LENGTH,
        bos_token_id=0,
        eos_token_id=0,
    )
    lora = LoraConfig(
        task_type=TaskType.CAUSAL_LM,
        r=8,
        lora_alpha=16,
        lora_dropout=0.05,
        target_modules=["q_proj", "v_proj"],
    )
    model = get_peft_model(LlamaForCausalLM(config), lora)
    model.print_trainable_parameters()
    loader = DataLoader(Text(8 * 60), batch_size=8, shuffle=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    scheduler = get_linear_schedule_with_warmup(optimizer, num_warmup_steps=10, num_training_steps=120)

    model.train()
    step = 0
    for _epoch in range(2):
        for batch in loader:
            loss = model(**batch).loss
            loss.backward()
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            step += 1
            print("step", step, loss.detach().float().item())


if __name__ == "__main__":
    main()
