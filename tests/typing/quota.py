"""What a type checker sees of quotas: read by mypy, never run."""

from typing_extensions import assert_type

from gputrain import ComputeEngine, QuotaExceededError, Trainer
from gputrain.quota import Increase, Quotas, QuotaStatus, Verdict, request_increase

trainer = Trainer(ComputeEngine("my-project", regions=["us-central1"], bucket="gs://b-1"))
quotas = trainer.quotas(["H100:8", "L4:4"], num_nodes=2, provisioning_model="spot", region="us-central1")
assert_type(quotas, Quotas)
row = next(iter(quotas))
assert_type(row, QuotaStatus)
assert_type(row.verdict, Verdict)
wish = request_increase(row, 16, "you@example.com", "to train")
assert_type(wish, Increase)
assert_type(wish.file().refresh(), Increase)
assert_type(
    request_increase(QuotaExceededError("too small"), 16, "you@example.com", "", project="my-project"),
    Increase,
)
