"""The frameworks' scripts of `tests/soak/frameworks`, asked for the card instead of the CPU."""

import importlib.util
import re
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / "soak" / "frameworks"
ON_THE_CARD = {
    "accelerate": ("Accelerator(cpu=True)", "Accelerator()"),
    "transformers": ("use_cpu=True, ", ""),
    "lightning": ('accelerator="cpu"', 'accelerator="gpu"'),
    "deepspeed": ("", ""),
}
TELLS = '\nprint("on the card:", torch.cuda.max_memory_allocated() > 0, flush=True)\n'


@pytest.mark.timeout(400)
@pytest.mark.parametrize("framework", ON_THE_CARD)
def test_a_framework_finds_the_card_that_its_job_has(trainer, script, framework):
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"there is no {framework}")
    cpu, card = ON_THE_CARD[framework]
    text = (SCRIPTS / f"{framework}_script.py").read_text()
    assert cpu in text
    job = trainer.submit(script(text.replace(cpu, card) + TELLS), gpu=1)
    job.wait(timeout=300, progress="none")
    said = "\n".join(line.message for line in job.logs())
    assert job.result(), said
    assert re.search(r"rank 0 of 1: loss [\d.]+", said), said
    assert "on the card: True" in said
