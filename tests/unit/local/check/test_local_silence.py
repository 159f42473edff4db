"""A job that had its time while it said nothing: more time only costs more."""

import pytest

from gputrain import JobError, JobFailedError, Local, Trainer
from gputrain.backends import agent_reports as results


def run(tmp_path, text, **spec):
    script = tmp_path / "train.py"
    script.write_text(text)
    return Trainer(Local(root=tmp_path / "jobs", gpus=0)).submit(str(script), nproc_per_node=2, **spec)


def test_an_expired_job_tells_how_long_it_had_been_silent(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "LONG_S", 1.0)
    job = run(tmp_path, "import time\nprint('up', flush=True)\ntime.sleep(600)\n", max_run_duration="6s")
    with pytest.raises(JobError, match=r"no rank had said anything for \d+s") as caught:
        job.result()
    assert caught.value.kind == "time_limit"


def test_a_job_that_hangs_fails_as_such_with_the_place_of_its_ranks(tmp_path):
    text = "import time\ndef stuck():\n    time.sleep(600)\nprint('up', flush=True)\nstuck()\n"
    with pytest.raises(JobFailedError, match="stood still") as caught:
        run(tmp_path, text, hang_timeout="5s").result()
    assert caught.value.kind == "hang"
    assert "ranks 0, 1 in stuck at train.py:3" in caught.value.why
