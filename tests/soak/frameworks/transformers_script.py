"""A Hugging Face Trainer script in the manner of its documentation."""

import tempfile

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed


class Counting(Dataset):
    def __len__(self):
        return 128

    def __getitem__(self, index):
        tokens = [(index * 7 + place) % 50 for place in range(16)]
        return {"input_ids": tokens, "labels": tokens}


set_seed(1)
model = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=16, n_embd=32, n_layer=2, n_head=2))
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder, max_steps=20, per_device_train_batch_size=8, learning_rate=1e-2, use_cpu=True, report_to=[]
    )
    trainer = Trainer(model=model, args=arguments, train_dataset=Counting())
    trainer.train()
tokens = torch.tensor([Counting()[index]["input_ids"] for index in range(8)], device=model.device)
with torch.no_grad():
    loss = model(input_ids=tokens, labels=tokens).loss
print(f"rank {arguments.process_index} of {arguments.world_size}: loss {loss:.4f}", flush=True)
