"""A record is a value; whatever somebody else wrote in its place is refused, and never half believed."""

import json
from datetime import datetime, timezone

import attrs
import pytest

from gputrain.backends.compute.names import VmNames
from gputrain.backends.google import addressed
from gputrain.job.record import AskedFor
from gputrain.planning import Outcome
from gputrain.records import MADE, RecordError, read_record
from gputrain.records.form import LATEST, LEAST_USD, MOST_RESTARTS, MOST_USD, written
from gputrain.records.record import KEPT_ASKS, spec_of
from gputrain.spec import TrainingSpec
from tests.each import each
from tests.unit.records.values import ASK, SPEC, WAY, record


def test_what_is_written_is_read_back():
    whole = record(used_s=7, used_usd=0.5, over="cancelled", settings={"compute": {"network": "default"}})
    assert read_record("bert-1", written(whole)) == whole


def test_any_backends_own_grammar_is_read_back():
    way = attrs.evolve(WAY, backend="K8s.io", place="Rack 1 <b>", region="Halle; Süd")
    whole = record(ways=(way,), asks=(attrs.evolve(ASK, way=way, names=("Tower #1/a", "pod/x")),))
    assert read_record("bert-1", written(whole)) == whole


@each("backend", ["compute", "vertex"])
@each(
    ("place", "name"),
    [
        ("us-central1-a/../../../victim/zones/us-central1-a", "bert-1-0-0"),
        ("us-central1-a; touch x", "bert-1-0-0"),
        ("us-central1-a", "../../prod-db"),
        ("us-central1-a", "bert/x"),
    ],
)
def test_what_is_no_name_on_google_cloud_stands_in_no_address(backend, place, name):
    ask = attrs.evolve(ASK, way=attrs.evolve(WAY, backend=backend, place=place), names=(name,))
    read = read_record("bert-1", written(record(asks=(ask,))))
    for use in (addressed, lambda ask: VmNames.of(attrs.evolve(read, asks=(ask,)))):
        with pytest.raises(RecordError, match="nothing on Google Cloud"):
            use(read.latest)


def test_a_function_is_recorded_as_the_script_that_was_made_of_it():
    def train():
        pass

    told = spec_of(TrainingSpec(function=train, gpu="L4:1"), ("gputrain_function.py",))
    again = TrainingSpec.from_dict(told)
    assert (again.script, again.function) == ("gputrain_function.py", None)
    assert again.launcher is TrainingSpec(function=train).launcher


def test_it_names_no_account_but_for_comparison():
    told = json.loads(written(record(settings={"compute": {"service_account": "a@b"}})))
    told.pop("settings")
    assert "a@b" not in json.dumps(told)
    assert not {"serviceAccounts", "network", "properties", "body"} & set(told)


@each(
    "changes",
    [
        {"created_at": LATEST},
        {"waiting_since": LATEST},
        {"used_usd": MOST_USD},
        {"asks": (attrs.evolve(ASK, at=LATEST),)},
        {"asks": (attrs.evolve(ASK, price_usd_h=LEAST_USD),)},
        {"asks": (attrs.evolve(ASK, price_usd_h=LEAST_USD),), "used_usd": MOST_USD},
        {"asks": (attrs.evolve(ASK, price_usd_h=MOST_USD),)},
        {"asks": (attrs.evolve(ASK, attempt=MOST_RESTARTS),)},
    ],
)
def test_the_largest_figures_end_no_look_at_a_job(changes):
    told = read_record("bert-1", written(record(**changes)))
    asked = AskedFor(lambda: told)
    assert len(asked.attempts) <= 1
    assert asked.spec in (None, SPEC)
    assert told.left_s <= 7200
    assert told.left is None or told.left.max_run_duration <= SPEC.max_run_duration
    assert datetime.fromtimestamp(told.latest.at, timezone.utc)
    assert asked.candidate is None or asked.candidate.max_run_duration <= SPEC.max_run_duration


@each(
    "content",
    [
        b"",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"<html>sign in</html>",
        b"[" * 100_000,
        b'{"schema": 1}',
        b'{"schema": 2, "job_id": "bert-1"}',
        b'{"schema": 1, "job_id": "gpt-1"}',
        b"1" * 5_000,
        b" " * (5 << 20),
    ],
)
def test_what_is_no_record_is_refused(content):
    with pytest.raises(RecordError, match="no record"):
        read_record("bert-1", content)


@each(
    ("path", "value"),
    [
        (("asks", 0, "names"), ["bert-1-0-0"] * 3_000_000),
        (("asks", 0, "names"), ["a\nb"]),
        (("asks", 0, "names"), "bert"),
        (("asks", 0, "nonce"), '"; touch x'),
        (("asks", 0, "way", "place"), "us-central1-a\x1b[2J"),
        (("asks", 0, "way", "place"), ""),
        (("asks", 0, "attempt"), -1),
        (("asks", 0, "attempt"), 1e999),
        (("asks", 0, "attempt"), 1001),
        (("asks", 0, "at"), "yesterday"),
        (("asks", 0, "at"), 1e15),
        (("asks", 0, "at"), -1),
        (("asks", 0, "price_usd_h"), 1e-300),
        (("asks", 0, "price_usd_h"), 1e12),
        (("created_at",), 2**59),
        (("waiting_since",), 1e18),
        (("used_usd",), 2**59),
        (("asks",), {}),
        (("used_s",), True),
        (("used_usd",), float("nan")),
        (("used_usd",), 10**400),
        (("spec",), []),
        (("code", "sha256"), "../../x"),
        (("settings",), {"compute": []}),
        (("over",), ["cancelled"]),
        (("home",), None),
    ],
)
def test_a_field_of_another_form_is_refused(path, value):
    told = json.loads(written(record()))
    inner = told
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    with pytest.raises(RecordError):
        read_record("bert-1", json.dumps(told).encode())


def test_time_and_money_of_earlier_attempts_are_gone():
    spent = record().spent(3600)
    assert (spent.used_s, spent.used_usd) == (3600, 2.0)
    assert spent.left.max_run_duration.total_seconds() == 3600
    assert spent.left.max_cost == 8.0
    assert spent.spent(3600 - 30).left is None


def test_the_latest_answer_of_a_place_stands_for_it_and_what_was_made_stays():
    made = record().answered(MADE)
    for number in range(3 * KEPT_ASKS):
        way = attrs.evolve(WAY, place=f"zone-{number % 7}")
        made = made.asked(attrs.evolve(ASK, way=way)).answered("no room")
    assert len(made.asks) <= 8
    assert made.asks[0].answer == MADE
    assert made.place_on("compute") == "us-central1-a"


def test_what_may_come_yet_is_not_forgotten_among_many_that_came_to_nothing():
    asked = record().answered(Outcome.UNCLEAR.value)
    for number in range(3 * KEPT_ASKS):
        way = attrs.evolve(WAY, place=f"zone-{number}")
        asked = asked.asked(attrs.evolve(ASK, nonce=f"{number:012x}", way=way)).answered("no room")
    assert len(asked.asks) == KEPT_ASKS + 2
    assert asked.asks[0] == record().answered(Outcome.UNCLEAR.value).latest


def test_an_ask_that_has_come_after_all_is_the_latest_and_open():
    late = record().answered(Outcome.UNCLEAR.value).latest
    asked = (
        record()
        .answered(Outcome.UNCLEAR.value)
        .asked(attrs.evolve(ASK, nonce="00000000beef"))
        .answered("no room")
    )
    come = asked.come(late)
    assert come.is_open
    assert [one.nonce for one in come.asks] == ["00000000beef", late.nonce]
    assert come.asks[0].answer == "no room"


LATE = attrs.evolve(ASK, answer="no_room")
REFUSED = attrs.evolve(ASK, answer="no_room", said="no room", way=attrs.evolve(WAY, backend="vertex"))
PLACED = attrs.evolve(ASK, way=attrs.evolve(WAY, backend="vertex"))


@each(
    ("asks", "backend"),
    [
        ((ASK,), "compute"),
        ((attrs.evolve(ASK, answer=MADE), REFUSED), "compute"),
        ((attrs.evolve(ASK, answer=MADE), PLACED), "vertex"),
        ((LATE, REFUSED), "compute"),
        ((REFUSED, LATE), "compute"),
        ((REFUSED,), "vertex"),
        ((), ""),
    ],
)
def test_a_job_is_where_it_was_taken_last(asks, backend):
    assert record(asks=asks).backend == backend
