"""A client struck at any instant of a submit, wait or cancel: one job a key, and back from a Ctrl-C at once.

A few instants are drawn in every run, a thousand kills and a thousand Ctrl-C a backend with ``-m soak``;
with ``-s`` it says what they came to. One process in four has never submitted before, which is when most of a
first submit is loading and looking up; the others are struck where they act.
"""

import random
import signal

import pytest

from gputrain.spec.entry import make_job_id, make_spec
from tests.laws.struck_clients import CALL, MOMENTS
from tests.laws.struck_worlds import Here, InTheCloud, Toll

BACK_WITHIN_S = 2.0
SAMPLE, ALL = 4, 1000
KINDS = ("local", "vertex", "compute")
ACTS = (["wait"], ["cancel"], [])


@pytest.fixture(scope="module", params=KINDS)
def place(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    made = Here(folder) if request.param == "local" else InTheCloud(request.param, folder)
    yield made
    made.close()


@pytest.fixture
def world(place):
    """A place without the jobs of other tests: each of them would be looked at again and again."""
    place.renew()
    return place


@pytest.fixture(scope="module")
def toll(place):
    counted = Toll(kind=place.kind)
    yield counted
    print(f"\n{counted}")


@pytest.fixture(scope="module")
def lives(place):
    """What a life counts that is not struck, by its acts; the first ones load what all need."""
    told = [place.live("counted", ["cancel"], is_warm=is_warm) for is_warm in (False, True)]
    assert [one["status"] for one in told] == [0, 0], told
    return {
        (is_warm, *acts): place.live(f"counted {is_warm} {acts}", acts, is_warm=is_warm, counts_calls=True)
        for is_warm in (False, True)
        for acts in ACTS
    }


def seeds(first):
    """A few for every run, and all that the soak has, by the hundred."""
    some = [pytest.param((first + number,), id=str(number)) for number in range(SAMPLE)]
    hundreds = range(first + SAMPLE, first + ALL, 100)
    more = [range(one, min(one + 100, first + ALL)) for one in hundreds]
    limit = (pytest.mark.soak, pytest.mark.timeout(3000))
    return [*some, *(pytest.param(one, marks=limit, id=f"{one[0]}-{one[-1]}") for one in more)]


def judge(world, toll, key, *, is_cancelled):
    """A fresh process gets the key's one job, which lives; after a cancel there is none, and none comes."""
    job_id = make_job_id(make_spec(None, {"script": world.script, **world.spec}), key)
    told = world.live(key, ["cancel"] if is_cancelled else [])
    there = world.there(job_id)
    toll.keys += 1
    toll.jobs += len(there) or world.has(job_id)
    is_told = told["status"] == 0 and told["said"].startswith("gputrain://") and "Error" not in told["said"]
    if not is_told or not (is_cancelled or world.has(job_id)):
        toll.missing.append((key, told))
    if len(there) > 1:
        toll.doubled.append((key, there))
    world.rest()
    if len(world.there(job_id)) > (0 if is_cancelled or world.kind == "local" else 1):
        toll.running.append((key, world.there(job_id)))


@pytest.mark.parametrize("seeds", seeds(10_000))
def test_a_client_that_is_killed_leaves_one_job(world, lives, toll, seeds):
    for seed in seeds:
        kill(world, lives, toll, seed)
    assert not toll.broken


def kill(world, lives, toll, seed):
    """One to three clients of a key, each killed at some instant, and one that comes after them."""
    dice = random.Random(f"killed {seed}")
    key, cancels = f"killed {seed}", False
    for _ in range(dice.choice((1, 1, 2, 3))):
        acts, is_warm = dice.choice(ACTS), _is_warm(dice)
        at = dice.randint(1, lives[(is_warm, *acts)]["calls"])
        slain(world, toll, key, acts, CALL, at, is_warm)
        cancels = cancels or "cancel" in acts
    judge(world, toll, key, is_cancelled=cancels)


def _is_warm(dice):
    """Whether a client has submitted before."""
    return dice.random() < 0.75


def slain(world, toll, key, acts, moment, at, is_warm=True):
    """A client that is killed then, unless it comes to its end before."""
    told = world.live(key, acts, [("SIGKILL", moment, at)], is_warm=is_warm)
    assert told["status"] in (0, -signal.SIGKILL), told
    assert "Error" not in told["said"], told
    toll.killed += told["status"] != 0


@pytest.mark.parametrize("most", [SAMPLE, pytest.param(ALL, marks=pytest.mark.soak)])
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_client_killed_at_each_request_leaves_one_job(world, lives, toll, moment, most):
    if world.kind == "local":
        pytest.skip("it sends no requests")
    steps = range(1, lives[(True,)]["begun"] + 1)
    for step in random.Random(moment).sample(steps, min(most, len(steps))):
        key = f"{step} {moment} of {most}"
        slain(world, toll, key, [], moment, step)
        judge(world, toll, key, is_cancelled=False)
    assert not toll.broken


@pytest.mark.parametrize("seeds", seeds(20_000))
def test_a_client_is_back_from_a_ctrl_c_at_once(world, lives, toll, seeds):
    for seed in seeds:
        press(world, lives, toll, seed)
    assert not toll.broken


def press(world, lives, toll, seed):
    """A client that is interrupted once or twice, and one that comes after it."""
    dice = random.Random(f"pressed {seed}")
    key, acts, is_warm = f"pressed {seed}", dice.choice(ACTS), _is_warm(dice)
    first = dice.randint(1, lives[(is_warm, *acts)]["calls"])
    second = first + dice.choice((50, 500, 5000)) * dice.randint(1, 10)
    strikes = [("SIGINT", CALL, at) for at in (first, second)][: dice.choice((1, 2, 2))]
    told = world.live(key, acts, strikes, is_warm=is_warm)
    assert told["status"] == 0, told
    assert "Error" not in told["said"], told
    toll.interrupted += told["struck"] > 0
    toll.longest_ms = max(toll.longest_ms, told["waited_ms"])
    if told["waited_ms"] > BACK_WITHIN_S * 1000:
        toll.slow.append((key, told))
    judge(world, toll, key, is_cancelled="cancel" in acts)
