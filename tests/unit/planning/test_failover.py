"""One step at a time: what the failover decides after each kind of answer."""

from datetime import datetime, timedelta, timezone

import attrs

from gputrain import (
    CapacityError,
    PermissionDeniedError,
    QuotaExceededError,
)
from gputrain.catalog import ProvisioningModel
from gputrain.errors import Scope
from gputrain.planning import Candidate, Fact, Failover
from gputrain.planning.attempts import Attempt, Outcome, refused
from gputrain.planning.failover import (
    BLOCKED_FOR,
    LONGEST_REST,
    NO_BLOCKS,
    Blocks,
    StopReason,
)
from gputrain.quota import QuotaReading, Verdict
from tests.laws.capacity_maps import candidate

NOW = datetime(2026, 11, 21, tzinfo=timezone.utc)
STANDARD, SPOT = ProvisioningModel.STANDARD, ProvisioningModel.SPOT


def l4(place, backend="compute", count=2, model=STANDARD, **fields):
    return candidate(backend, place, "L4", count, f"g2-{count}", model, **fields)


PLAN = (l4("us-east4", "vertex"), l4("us-central1-a"), l4("us-central1-b"), l4("europe-west4-a"))


def after(*errors, plan=PLAN, give_up_at=None, at=NOW):
    """The failover after these errors, each of the candidate that was next."""
    failover = Failover(candidates=plan, give_up_at=give_up_at)
    for error in errors:
        failover = failover.after(refused(failover.step(at), error, at))
    return failover


def following(failover, now=NOW, blocks=NO_BLOCKS):
    step = failover.step(now, blocks)
    return (step.backend, step.place) if isinstance(step, Candidate) else step


def test_what_others_were_answered_counts_where_it_has_no_answer_of_its_own():
    others = [refused(one, CapacityError("x"), NOW) for one in PLAN[:2]]
    failover = after(CapacityError("x"))
    known = failover.answered(others)
    assert known.attempts == (*failover.attempts, others[1])
    assert following(known) == ("compute", "us-central1-b")
    assert known.answered(others) == known
    anew = known.again(PLAN)
    assert following(anew) == ("vertex", "us-east4")
    assert anew.answered(others) == anew.answered(known.attempts) == anew


def test_a_regional_quota_hops_regions_not_zones():
    plan = (*PLAN[1:3], l4("us-central1-c", model=SPOT), PLAN[3])
    quota = QuotaExceededError("x", metric="NVIDIA_L4_GPUS", limit=8, where="us-central1")
    first = after(quota, plan=plan)
    assert following(first) == ("compute", "us-central1-c")  # spot counts against another quota
    assert following(first.after(refused(plan[2], CapacityError("x"), NOW))) == ("compute", "europe-west4-a")


def test_a_short_quota_is_not_tried_and_a_place_without_the_machine_neither():
    short = Fact(verdict=Verdict.SHORT, readings=(QuotaReading(metric="q", where="r", need=2, limit=1),))
    plan = (attrs.evolve(PLAN[1], fact=short), attrs.evolve(PLAN[2], fact=Fact(absent_why="no")), PLAN[3])
    assert following(after(plan=plan)) == ("compute", "europe-west4-a")
    assert after(plan=plan[:2]).step(NOW) == StopReason.NOWHERE_LEFT


def test_places_that_were_lately_full_come_last_until_they_are_forgotten_or_named():
    blocks = Blocks().after(refused(PLAN[1], CapacityError("x"), NOW))
    plan = PLAN[1:]
    assert following(after(plan=plan), NOW, blocks) == ("compute", "us-central1-b")
    assert following(after(plan=plan[:1]), NOW, blocks) == ("compute", "us-central1-a")
    assert following(after(plan=plan), NOW + BLOCKED_FOR, blocks) == ("compute", "us-central1-a")
    named = blocks.after(refused(plan[2], CapacityError("x", zones_available=(plan[0].place,)), NOW))
    assert following(after(plan=plan), NOW, named) == ("compute", "us-central1-a")
    assert not blocks.after(Attempt(candidate=PLAN[1], at=NOW, outcome=Outcome.ACCEPTED, answer="")).until
    for later, kept in ((BLOCKED_FOR / 2, 2), (BLOCKED_FOR, 1)):
        assert len(blocks.after(refused(plan[1], CapacityError("x"), NOW + later)).until) == kept


def test_rests_grow_and_end_with_the_time_to_wait():
    end = NOW + timedelta(hours=1)
    failover, now, rests = Failover(candidates=PLAN[:1], give_up_at=end), NOW, []
    while not isinstance(step := failover.step(now), StopReason):
        if isinstance(step, datetime):
            rests.append(step - now)
            now, failover = step, failover.again(PLAN[:1])
        else:
            failover = failover.after(refused(step, CapacityError("x"), now))
    assert (step, now) == (StopReason.TIME_UP, end)
    assert rests[:3] == [timedelta(seconds=30), timedelta(minutes=1), timedelta(minutes=2)]
    assert max(rests) <= LONGEST_REST
    assert failover.attempts[-1].at == end


def test_what_waiting_cannot_mend_is_not_waited_for():
    quota = QuotaExceededError("x", limit=0)
    end = NOW + timedelta(hours=1)
    assert isinstance(after(quota, plan=PLAN[1:3], give_up_at=end).step(NOW), StopReason)
    assert isinstance(after(PermissionDeniedError("x"), plan=PLAN[1:], give_up_at=end).step(NOW), StopReason)
    used_up = QuotaExceededError("x", limit=8)
    assert isinstance(after(used_up, plan=PLAN[1:3], give_up_at=end).step(NOW), datetime)


def test_a_ledger_shows_itself_with_places_of_one_answer_together():
    ledger = after(
        *[CapacityError("x")] * 3, QuotaExceededError("x", metric="NVIDIA_L4_GPUS", limit=0)
    ).attempts
    assert [one.outcome for one in ledger] == [Outcome.NO_ROOM] * 3 + [Outcome.NO_QUOTA]
    assert len(ledger.table.rows) == 4
    assert [row[4] for row in ledger.summary.rows] == [
        "us-east4",
        "us-central1-a, -b",
        "europe-west4-a",
    ]
    assert "NVIDIA_L4_GPUS is 0 in europe-west4; the job needs 2 GPUs" in str(ledger)
    assert "<table>" in ledger._repr_mimebundle_()["text/html"]


def test_a_zone_that_never_has_the_machine_is_not_waited_for_and_keeps_its_other_machines():
    never = CapacityError("no such machine here", is_lasting=True)
    other = attrs.evolve(PLAN[1], gpu="T4", machine_type="n1-standard-8")
    failover = after(never, plan=(PLAN[1], other))
    assert following(failover) == ("compute", "us-central1-a")
    assert failover.attempts[0].answer == "not here: no such machine here"
    end = NOW + timedelta(hours=6)
    assert isinstance(after(never, plan=PLAN[1:2], give_up_at=end).step(NOW), StopReason)
    assert isinstance(after(CapacityError("full"), plan=PLAN[1:2], give_up_at=end).step(NOW), datetime)


LONG, SHORT = (l4(place, "slurm", region=place) for place in ("gpu-long", "gpu-short"))


def test_a_refusal_of_a_whole_region_reaches_no_further_than_the_backend_says():
    error = CapacityError("x", scope=Scope.REGION)
    assert following(after(error, plan=(LONG, SHORT))) == ("slurm", "gpu-short")
    assert not NO_BLOCKS.after(refused(LONG, error, NOW)).hold(SHORT, NOW)
    together = tuple(attrs.evolve(one, region="gpu") for one in (LONG, SHORT))
    assert after(error, plan=together).step(NOW) == StopReason.NOWHERE_LEFT
    assert NO_BLOCKS.after(refused(together[0], error, NOW)).hold(together[1], NOW)
