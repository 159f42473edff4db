"""A record, and what it is made of."""

from gputrain.records import Ask, Code, Record, Way
from gputrain.spec import TrainingSpec

SPEC = TrainingSpec(script="train.py", gpu="L4:1", max_run_duration="2h", max_cost=10.0, max_restarts=3)
WAY = Way(
    backend="compute", place="us-central1-a", region="us-central1", gpu="L4", gpu_count="1",
    machine_type="g2-standard-4", model="spot",
)  # fmt: skip
ASK = Ask(way=WAY, attempt=0, names=("bert-1-0-0",), nonce="0123456789ab", price_usd_h=2.0, at=1000.0)


def record(**fields):
    given = {
        "job_id": "bert-1", "home": "gs://my-bucket/", "spec": SPEC.to_dict(), "ways": (WAY,), "asks": (ASK,),
        "code": Code(location="gs://my-bucket/code/abc.tar.gz", argv=("train.py",), sha256="a" * 64),
    }  # fmt: skip
    return Record(**{**given, **fields})
