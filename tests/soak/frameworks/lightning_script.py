"""A PyTorch Lightning script in the manner of its documentation."""

import argparse

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--devices", type=int, default=1)
parser.add_argument("--num-nodes", type=int, default=1)
args = parser.parse_args()


class Regression(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))

    def training_step(self, batch):
        x, y = batch
        loss = nn.functional.mse_loss(self.network(x), y)
        self.log("loss", loss, sync_dist=True, on_step=False, on_epoch=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


lightning.seed_everything(1)
inputs = torch.randn(256, 8)
loader = DataLoader(TensorDataset(inputs, inputs.sum(1, keepdim=True)), batch_size=16, shuffle=True)
trainer = lightning.Trainer(
    accelerator="cpu",
    strategy="ddp",
    devices=args.devices,
    num_nodes=args.num_nodes,
    max_epochs=3,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(Regression(), loader)
print(
    f"rank {trainer.global_rank} of {trainer.world_size}: loss {trainer.callback_metrics['loss']:.4f}",
    flush=True,
)
