"""A DeepSpeed script in the manner of its documentation."""

import deepspeed
import torch
import torch.distributed as dist
from torch import nn

config = {
    "train_micro_batch_size_per_gpu": 16,
    "optimizer": {"type": "SGD", "params": {"lr": 0.05}},
    "zero_optimization": {"stage": 1},
    "zero_allow_untested_optimizer": True,
}
torch.manual_seed(1)
deepspeed.init_distributed()
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
inputs = torch.randn(256, 8).chunk(dist.get_world_size())[dist.get_rank()]
for _ in range(30):
    for x in inputs.split(16):
        loss = nn.functional.mse_loss(engine(x), x.sum(1, keepdim=True))
        engine.backward(loss)
        engine.step()

mean = loss.detach()
dist.all_reduce(mean)
print(
    f"rank {dist.get_rank()} of {dist.get_world_size()}: loss {mean / dist.get_world_size():.4f}", flush=True
)
