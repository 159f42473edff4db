"""What readings of quotas mean for a job."""

import pytest

from gputrain.quota import EVERYWHERE, Reading, Source, Verdict, contradictions, deciding, verdict_of


def reading(need=8, limit=None, usage=None, *, metric="NVIDIA_L4_GPUS", where="us-central1", **more):
    return Reading(metric=metric, where=where, need=need, limit=limit, usage=usage, **more)


@pytest.mark.parametrize(
    ("limit", "usage", "verdict"),
    [
        (8, 0, Verdict.FITS),
        (8, 1, Verdict.SHORT),
        (8, None, Verdict.FITS),
        (7, None, Verdict.SHORT),
        (0, 0, Verdict.SHORT),
        (float("inf"), 4096, Verdict.FITS),
        (None, None, Verdict.UNKNOWN),
        (None, 4096, Verdict.UNKNOWN),
    ],
)
def test_a_reading_fits_when_limit_less_usage_covers_the_need(limit, usage, verdict):
    assert reading(8, limit, usage).verdict is verdict


def test_one_short_quota_is_enough():
    other = reading(8, 4, metric="GPUS_ALL_REGIONS", where=EVERYWHERE)
    assert verdict_of([reading(8, 8), other]) is Verdict.SHORT
    assert deciding([reading(8, 8), other]) is other


def test_an_unknown_quota_beside_one_that_fits_leaves_it_open():
    assert verdict_of([reading(8, 8), reading(8, None, metric="CPUS")]) is Verdict.UNKNOWN


def test_a_quota_that_one_api_knows_is_not_unknown_because_the_other_does_not():
    assert verdict_of([reading(8, None, source=Source.REGIONS), reading(8, 8)]) is Verdict.FITS


def test_where_two_apis_differ_the_stricter_is_obeyed_with_the_usage_of_either():
    told = [reading(4, 8, 3, source=Source.REGIONS), reading(4, 6, source=Source.CLOUD_QUOTAS)]
    assert verdict_of(told) is Verdict.SHORT
    assert (deciding(told).limit, deciding(told).usage, deciding(told).source) == (6, 3, Source.CLOUD_QUOTAS)
    assert contradictions(told) == (tuple(told),)


def test_the_same_figure_from_two_apis_is_no_contradiction():
    told = [reading(4, 8, 3), reading(4, 8), reading(4, None)]
    assert contradictions(told) == ()


def test_a_quota_that_may_not_count_decides_nothing():
    assert verdict_of([reading(8, 8), reading(96, 0, metric="A2_CPUS", is_gate=False)]) is Verdict.FITS


def test_nothing_that_counts_fits():
    assert verdict_of([]) is Verdict.FITS
    assert deciding([]) is None
