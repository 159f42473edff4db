"""Over random clouds: room is found wherever there is any, with no more creates than a patient person needs,
and nothing is asked once the whole project is known to have no quota."""

from datetime import datetime, timedelta, timezone

import attrs
import pytest

from gputrain.planning import Fact, Failover
from gputrain.planning.attempts import Attempt, Outcome, refused
from gputrain.planning.failover import Blocks, StopReason
from gputrain.quota import Verdict
from tests.laws.capacity_maps import draw, oracle

NOW = datetime(2026, 11, 21, tzinfo=timezone.utc)
SEEDS = pytest.mark.parametrize(
    "seeds", [range(300), pytest.param(range(300, 20_000), marks=pytest.mark.soak)], ids=["some", "all"]
)


def climb(cloud, plan, *, give_up_at=None):
    """Every step of the failover against a cloud; the candidates tried, and whether one took the job."""
    failover, blocks, now, tried = Failover(candidates=tuple(plan), give_up_at=give_up_at), Blocks(), NOW, []
    while True:
        step = failover.step(now, blocks)
        if isinstance(step, StopReason):
            return tried, False
        if isinstance(step, datetime):
            now, failover = step, failover.again(plan)
            continue
        tried.append(step)
        error = cloud.refusal(attrs.evolve(step, fact=Fact()))
        now += timedelta(seconds=10)
        accepted = Attempt(candidate=step, at=now, outcome=Outcome.ACCEPTED, answer="")
        answer = accepted if error is None else refused(step, error, now)
        failover, blocks = failover.after(answer), blocks.after(answer)
        if error is None:
            return tried, True


@SEEDS
def test_room_is_found_wherever_there_is_any_with_no_more_creates_than_the_oracle(seeds):
    for seed in seeds:
        cloud, plan = draw(seed)
        tried, found = climb(cloud, plan)
        by_hand, _ = oracle(cloud, plan)
        assert found == any(cloud.takes(one) for one in cloud.candidates), seed
        assert len(tried) <= len(by_hand), seed
        assert len(set(tried)) == len(tried), seed
        assert all(one.fact.verdict is not Verdict.SHORT for one in tried), seed
