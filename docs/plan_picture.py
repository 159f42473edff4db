"""Draw plan.svg, the picture of a plan in the README: ``python docs/plan_picture.py``.

It is what `gputrain plan` prints in a terminal, planned against the emulator at a fixed time.
"""

import io
import re
import tempfile
from datetime import datetime, timezone
from pathlib import Path

import attrs
from rich.console import Console

import gputrain_emulator
from gputrain import ComputeEngine, Trainer, VertexAI

PICTURE = Path(__file__).with_name("plan.svg")
COMMAND = "gputrain plan train.py --gpu H100:8 --num-nodes 2 --provisioning-model spot --max-run-duration 12h"
WHEN = datetime(2026, 11, 21, 9, tzinfo=timezone.utc)
WIDTH = 124


def plan():
    """A plan over two backends and two regions, with a quota that is too small in one of them."""
    with gputrain_emulator.start() as cloud:
        cloud.quota("PREEMPTIBLE_NVIDIA_H100_GPUS", 8, region="us-east4")
        both = {
            "project": cloud.project,
            "regions": ["us-central1", "us-east4"],
            "bucket": "gs://my-bucket",
            "endpoints": cloud.endpoints,
            "credentials": cloud.credentials,
        }
        subnetworks = [f"gpu-sub-{number}" for number in range(1, 5)]
        compute = ComputeEngine(**both, gpu_subnetworks=subnetworks, image_family="my-project/tcpx")
        trainer = Trainer([VertexAI(**both), compute], now=lambda: WHEN)
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "train.py").write_text("import torch\n")
            made = trainer.plan(
                "train.py", source_dir=folder, gpu="H100:8", num_nodes=2, provisioning_model="spot",
                max_run_duration="12h",
            )  # fmt: skip
            real = tuple(
                note for note in made.notes if "emulator" not in note
            )  # as Google's own would show it
            return attrs.evolve(made, notes=real)


def draw():
    """The picture, without the fonts that rich would load from elsewhere."""
    console = Console(
        record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    console.print(f"[bold]$ {COMMAND}[/bold]\n", highlight=False)
    console.print(plan())
    picture = console.export_svg(title="gputrain", unique_id="plan")
    return re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)


if __name__ == "__main__":
    PICTURE.write_text(draw())
