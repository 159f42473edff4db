"""What pip cannot install ends a job before its script begins."""

import os

import pytest

from gputrain import State


def test_a_requirement_that_cannot_be_installed_is_the_cause_in_pips_own_words(road, script):
    env = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}
    plan = road.plan(script("print('runs')"), num_nodes=2, requirements=["no-such-thing"], env=env)
    if not plan.candidates:
        pytest.skip("it installs nothing")
    job = plan.submit()
    assert road.end(job) is State.FAILED
    assert job.failure.kind == "requirements"
    assert "No matching distribution found for no-such-thing" in job.failure.message
    assert any("no-such-thing" in line for line in job.failure.last_lines)
    assert "runs" not in road.text(job).splitlines()
