"""The runner of an experiment: each point ends in a job or in an error, whenever it is stopped."""

import time

from gputrain import CapacityError
from gputrain.experiments import runner
from gputrain.experiments.runner import Runner


def test_a_point_that_finds_no_room_waits_until_a_job_has_ended(trainer, tmp_path, script):
    go, asked = tmp_path / "go", []
    (tmp_path / "held.py").write_text(
        f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.05)"
    )

    def submit(number, stop):
        asked.append(number)
        if len(asked) == 1:
            go.touch()
            raise CapacityError("no room")
        return trainer.submit(script, args=["--lr", "0.1"])

    one = Runner(submit, 9)
    one.watch(0, trainer.submit(str(tmp_path / "held.py")))
    one.add([2, 3])
    until = time.monotonic() + runner.AGAIN_S - 5
    while len(one.ended) < 3 and time.monotonic() < until:
        time.sleep(0.05)
    assert asked == [2, 3, 2]
    one.close()
