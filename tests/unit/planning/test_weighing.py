"""Facts joined to a plan: what falls out, what is said of the rest, and how old it is."""

from datetime import datetime, timezone

import attrs

from gputrain import CapacityError, NoPlacementError, PermissionDeniedError, QuotaExceededError, TrainingSpec
from gputrain.catalog import Service
from gputrain.errors import Scope
from gputrain.planning import Fact, Failover, candidates, weigh
from gputrain.planning.attempts import refused
from gputrain.planning.failover import StopReason
from gputrain.quota import EVERYWHERE, LimitSource, QuotaReading, Verdict
from gputrain.trainer import Plan
from gputrain.trainer.plan import placement_error
from tests.each import each
from tests.market import supply

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=timezone.utc)
SPEC = TrainingSpec(script="train.py", gpu="L4:2", num_nodes=2, max_run_duration="2h")
MARKET = attrs.evolve(supply(Service.COMPUTE), regions=("us-central1", "us-east4"))


def reading(limit, *, metric="NVIDIA_L4_GPUS", where="us-central1", usage=None, source=LimitSource.REGIONS):
    return QuotaReading(
        metric=metric, where=where, need=4, limit=limit, usage=usage, source=source, read_at=NOW
    )  # fmt: skip


def planned(fact_of):
    wanted = candidates(SPEC, [MARKET])
    found = weigh(wanted, {one: fact for one in wanted.candidates if (fact := fact_of(one)) is not None})
    return Plan(spec=SPEC, candidates=found.candidates, refusals=found.refusals, made_at=NOW)


def in_us_central1(one):
    return one.place.startswith("us-central1")


def test_the_plain_words_tell_limit_usage_need_who_told_it_and_when():
    fact = Fact(verdict=Verdict.FITS, readings=(reading(16, usage=2),), availability="a list of 12:00 UTC")
    text = planned(lambda _: fact).explain()
    told = "NVIDIA_L4_GPUS in us-central1 is 16 with 2 in use, the job needs 4 (regions.list, 12:00 UTC)"
    assert told in text
    assert "has such machines (a list of 12:00 UTC)" in text
    assert "Facts read 2026-11-21 12:00 UTC, good until 12:10" in text


def test_a_short_quota_is_said_in_figures_and_the_next_region_is_taken():
    short = Fact(verdict=Verdict.SHORT, readings=(reading(0, usage=0),))
    plan = planned(lambda one: short if in_us_central1(one) else None)
    assert not in_us_central1(plan.best)
    text = plan.explain()
    assert f"would run on 2 nodes x 2 x L4 (g2-standard-24) as standard at {plan.best.place}" in text
    assert "Not tried: 2 nodes x 2 x L4 as standard in us-central1-a" in text


def test_with_every_quota_short_the_error_has_the_figures_and_nothing_was_tried():
    short = Fact(
        verdict=Verdict.SHORT, readings=(reading(2, metric="GPUS_ALL_REGIONS", where=EVERYWHERE, usage=1),)
    )
    plan = planned(lambda _: short)
    assert "would not start anywhere" in plan.explain()
    error = placement_error(plan, Failover(candidates=plan.candidates), StopReason.NOWHERE_LEFT)
    assert isinstance(error, QuotaExceededError)
    assert (error.metric, error.limit, error.usage, error.need) == ("GPUS_ALL_REGIONS", 2, 1, 4)
    assert "nothing was tried" in str(error)


NO, RESERVED = CapacityError("no room"), CapacityError("it has none", is_lasting=True)
DENIED = PermissionDeniedError("you may not")


@each(
    ("errors", "reason", "raised"),
    [
        ([DENIED], StopReason.NOWHERE_LEFT, DENIED),
        ([RESERVED], StopReason.NOWHERE_LEFT, RESERVED),
        ([NO], StopReason.NOWHERE_LEFT, None),
        ([NO, DENIED], StopReason.NOWHERE_LEFT, None),
        ([NO, DENIED], StopReason.REFUSED, DENIED),
        ([NO, NO, DENIED], StopReason.REFUSED, DENIED),
        ([NO, NO, DENIED], StopReason.NOWHERE_LEFT, None),
    ],
)
def test_the_only_answer_is_raised_as_it_is_but_for_a_place_without_room(errors, reason, raised):
    plan = planned(lambda _: None)
    failover = Failover(candidates=plan.candidates)
    for one, error in zip(plan.candidates, errors):
        failover = failover.after(refused(one, error, NOW))
    found = placement_error(plan, failover, reason)
    if raised is not None:
        assert found is raised
        return
    assert isinstance(found, NoPlacementError)
    assert f"after {len(errors)} tries: {reason.value}" in str(found)
    assert found.__cause__ is errors[-1]
    assert found.attempts == failover.attempts


MORE = "allow more GPU kinds, provisioning models or regions"
WAIT, LONGER = "give max_wait_duration to wait for room", "wait longer: a higher max_wait_duration"
SWITCHED_OFF = PermissionDeniedError("you may not", fix="ask the owner", scope=Scope.PROJECT)
NOBODY = PermissionDeniedError("nobody may", fix="pay the bill", scope=Scope.ACCOUNT)


@each(
    ("errors", "wait", "fix"),
    [
        ([NO, NO], None, [MORE, WAIT]),
        ([NO, NO], "1h", [MORE, LONGER]),
        ([NO, SWITCHED_OFF, SWITCHED_OFF], None, ["ask the owner", MORE, WAIT]),
        ([SWITCHED_OFF, SWITCHED_OFF], "1h", ["ask the owner", MORE]),
        ([NOBODY, NOBODY], None, ["pay the bill"]),
        ([NOBODY, NO], None, ["pay the bill", MORE, WAIT]),
    ],
)
def test_what_to_do_is_what_the_answers_leave_the_surest_first_and_each_once(errors, wait, fix):
    plan = planned(lambda _: None)
    plan = attrs.evolve(plan, spec=SPEC.replace(max_wait_duration=wait))
    failover = Failover(candidates=plan.candidates)
    for one, error in zip(plan.candidates, errors):
        failover = failover.after(refused(one, error, NOW))
    assert placement_error(plan, failover, StopReason.NOWHERE_LEFT).fix.split("; or ") == fix
