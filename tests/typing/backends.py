"""What a type checker sees of backends, as users write them: read by mypy and pyright, never run."""

from collections.abc import Sequence

from typing_extensions import assert_type

from gputrain import ComputeEngine, Local, Plan, Trainer, VertexAI
from gputrain.backends.base import Backend

local = Local(gpus=2)
vertex = VertexAI("my-project", "us-central1", bucket="gs://b-1")
compute = ComputeEngine("my-project", regions=["us-central1"], bucket="gs://b-1")

Trainer()
Trainer(local)
Trainer(vertex)
Trainer(compute)
Trainer([vertex, compute, local])
Trainer((compute, local))
gathered = [vertex, compute]
Trainer(gathered)
grown: list[Backend] = [local]
grown.append(vertex)
assert_type(Trainer(grown).plan("train.py"), Plan)
Trainer("local")  # type: ignore[arg-type]  # a name is no backend
Trainer(VertexAI)  # type: ignore[arg-type]  # nor is a class


def chosen(is_paid: bool) -> Trainer:
    return Trainer(vertex if is_paid else local)


cores: Sequence[Backend] = (local, vertex, compute)
