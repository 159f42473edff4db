"""An experiment on machines that cost something: what its points have used keeps nobody from taking it up."""

import attrs

import gputrain
from gputrain import Trainer


def test_a_script_runs_again_though_a_point_of_it_has_used_its_share(make, code):
    points = gputrain.grid(seed=[0, 1])
    asked = {"name": "scan", "gpu": "L4:1", "max_cost": 10.0, "max_parallel": 2}
    scan = Trainer(make()).map(code, points, **asked)
    scan.cancel()
    scan._store.retry([attrs.evolve(scan._entries[0], retries=1, used_usd=5.0)])
    taken_up = Trainer(make()).map(code, points, **asked)
    assert len(taken_up.points) == 2
    taken_up.close()
    scan.close()
