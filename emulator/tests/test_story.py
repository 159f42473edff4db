"""The story in examples/ runs and tells what it promises."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

STORY = Path(__file__).parents[2] / "examples" / "emulator_story.py"


def test_the_story_is_told_to_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(STORY), run_name="__main__")
    told = capsys.readouterr().out
    assert (
        "zone a, out of stock: ['VM_MIN_COUNT_NOT_REACHED', 'ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS']"
        in told
    )
    assert "zone b, quota of 8:   ['VM_MIN_COUNT_NOT_REACHED', 'QUOTA_EXCEEDED']" in told
    assert "zone b, quota of 16:  it runs" in told
    events = [line.split()[1] for line in told.splitlines() if "/instances/bert-1" in line]
    assert events[-8:] == ["create", "start", "preempt", "stop", "restart", "start", "delete-asked", "delete"]
    assert "It would have cost" in told
