"""Labels, filters, quotas, credentials, and what of an answer's body is taken for what."""

import hashlib
import re
from datetime import datetime, timezone

import google.auth
import pytest
from google.auth.exceptions import DefaultCredentialsError
from hypothesis import given, strategies as st

from gputrain.gcp import Access, Answer, Endpoints, Stored, filter_text, label_value, our_labels
from gputrain.gcp.answer import LONGEST, QuotaFact, Surface, answer_of_json, cut, place_of, seconds
from gputrain.gcp.credentials import LockedCredentials, locked
from gputrain.gcp.forms import whole_number
from gputrain.gcp.wire import Reply
from tests.each import each
from tests.unit.gcp.answering import Token


@given(st.text())
def test_any_text_has_a_label(text):
    assert re.fullmatch(r"[a-z0-9_-]{0,63}", label_value(text))


@given(st.text(), st.text())
def test_different_texts_have_different_labels(one, other):
    assert (label_value(one) == label_value(other)) == (one == other)


@pytest.mark.parametrize("length", [0, LONGEST - 1, LONGEST, LONGEST + 1, 2 * LONGEST + 1])
def test_what_may_be_shown_is_no_longer_than_a_person_reads_and_says_where_it_was_cut(length):
    text = ("a " * length)[:length]
    assert cut(text) == (text if length <= LONGEST else text[:LONGEST] + "...")


def test_a_label_stays_what_it_was_or_no_job_is_found_again():
    told = hashlib.sha256(b"X" * 99).hexdigest()
    assert label_value("X" * 99) == f"{'x' * 52}-{told[:10]}"
    assert our_labels("bert", {})["gputrain-name"] == "bert"


def test_a_credential_that_is_cut_in_two_is_hidden_all_the_same():
    token = "npm_" + "a1B2" * 9
    for length in (LONGEST - 20, LONGEST - 1):
        assert "npm_" not in cut("." * (length - 1) + " " + token)


@given(st.text())
def test_nothing_in_a_text_ends_the_quotes_of_a_filter(text):
    quoted = filter_text(text)
    inner = re.fullmatch(r'"((?:[^"\\]|\\.)*)"', quoted, re.DOTALL)
    assert inner
    assert re.sub(r"\\(.)", r"\1", inner.group(1), flags=re.DOTALL) == text


def test_a_users_label_cannot_hide_ours():
    assert our_labels("bert-x1", {"team": "nlp", "gputrain-job": "other"}) == {
        "team": "nlp",
        "gputrain-job": "bert-x1",
        "gputrain-name": "bert",
    }


@each(
    ("metric", "dimensions", "is_global"),
    [
        ("GPUS_ALL_REGIONS", {}, True),
        ("compute.googleapis.com/gpus_all_regions", {}, True),
        ("NVIDIA_L4_GPUS", {}, False),
        ("NETWORKS", {"global": "global"}, True),
        ("NVIDIA_L4_GPUS", {"region": "us-central1"}, False),
        ("GPUS_ALL_REGIONS", {"region": "us-central1"}, False),
        ("GPUS_ALL_REGIONS", {"zone": "us-central1-a"}, False),
        ("NETWORKS", {"global": "global", "region": "us-central1"}, False),
    ],
)
def test_a_quota_is_of_all_regions_by_its_name_or_dimension_where_no_region_is_named(
    metric, dimensions, is_global
):
    assert QuotaFact(metric=metric, dimensions=dimensions).is_global is is_global


@pytest.mark.parametrize(
    ("email", "account"),
    [("a@p.iam.gserviceaccount.com", "a@p.iam.gserviceaccount.com"), ("default", ""), (None, "")],
)
def test_locked_credentials_tell_what_those_within_tell(email, account):
    inner = Token()
    inner.service_account_email = email
    locked = LockedCredentials(inner)
    assert (locked.valid, locked.expired, locked.account) == (False, False, account)
    assert locked.universe_domain == "googleapis.com"
    inner.token, inner.expired = "t", True
    assert (locked.valid, locked.expired) == (True, True)


def test_who_shows_an_access_shows_no_token():
    hush = Endpoints(compute="http://127.0.0.1:1/_emulator/as/hush")
    assert repr(Access(project="p", credentials=Token("hush"), endpoints=hush)) == "Access(project='p')"


@each(
    ("value", "count"),
    [
        (0, 0),
        (7, 7),
        ("7", 7),
        (-1, None),
        (10**19, None),
        (True, None),
        (2.0, None),
        ("-1", None),
        ("٧", None),
        (10**19 - 1, 10**19 - 1),
        ("9" * 19, 10**19 - 1),
        ("9" * 20, None),
        ("eight", None),
        (None, None),
    ],
)
def test_a_count_is_a_whole_number_from_zero_on(value, count):
    assert whole_number(value) == count


CPUS = {"metricName": "CPUS", "limitName": "CPUS-per-region", "limit": 8, "futureLimit": "16"}
METRIC = {"quota_metric": "m"}
ZONES = "https://x/compute/v1/projects/p/zones"
BODIES = [
    ({"code": 404}, {"status": 404, "canonical": "NOT_FOUND"}),
    ({"code": 999}, {"status": 999, "canonical": ""}),
    *(({"code": code}, {"status": 0}) for code in (0, -1, 1000, True, "404", None)),
    ({"code": 400, "status": "OUT_OF_RANGE"}, {"canonical": "OUT_OF_RANGE"}),
    ({"status": "two words"}, {"canonical": ""}),
    ({"status": "npm_" + "a1B2" * 9}, {"canonical": ""}),
    ({"errors": [{"reason": "a"}, {"code": "b"}, {"code": 3}, 7]}, {"codes": {"a", "b"}}),
    ({"errors": ({"reason": "a"},)}, {"codes": {"a"}}),
    ({"errors": {"reason": "a"}}, {"codes": set()}),
    ({"details": [{"retryDelay": "soon"}, {"retryDelay": "2.5s"}]}, {"retry_after_s": 2.5}),
    (
        {"details": [{"metadata": {"a": "1", "": "2", "c": ""}}, {"metadatas": {"b": "2"}}, {"metadata": 7}]},
        {"metadata": {"a": "1", "b": "2"}},
    ),
    ({"details": [{"errorInfo": {"reason": "A"}}, {"reason": "B"}]}, {"reasons": {"A", "B"}}),
    ({"details": [{"metricName": "CPUS"}]}, {"quota": QuotaFact(metric="CPUS")}),
    ({"details": [{"limitName": "C"}, {"limitName": "D"}]}, {"quota": QuotaFact(limit_name="C")}),
    ({"details": [{"limit": 3}]}, {"quota": None}),
    *(
        (
            {"details": [{"quotaInfo": {**CPUS, "rolloutStatus": status, "dimensions": {"region": "r"}}}]},
            {"quota": QuotaFact(metric="CPUS", limit_name="CPUS-per-region", limit=8.0, future_limit=future,
                                dimensions={"region": "r"})},
        )
        for status, future in (("IN_PROGRESS", 16.0), ("DONE", None), ("ROLLED_BACK", None), (None, None))
    ),
    *(
        (
            {"details": [{"metadata": {**METRIC, "quota_limit_value": text, "quota_location": at}}]},
            {"quota": QuotaFact(metric="m", limit=limit, dimensions=dimensions)},
        )
        for text, limit in (("8", 8.0), ("x", None), ("inf", None))
        for at, dimensions in (
            ("", {}), ("global", {"global": "global"}), ("asia-east1", {"region": "asia-east1"}),
            ("us-east1", {"region": "us-east1"}),
        )
    ),
    *(
        ({"details": [{"metricName": "m", "limit": limit}]}, {"quota": QuotaFact(metric="m")})
        for limit in (True, 10**400, None, [])
    ),
]  # fmt: skip


@each(("error", "told"), BODIES)
def test_of_an_errors_body_what_has_googles_form_is_read_and_the_rest_passed_over(error, told):
    answer = answer_of_json({"error": error})
    assert {name: getattr(answer, name) for name in told} == told


def test_what_stands_beside_a_body_is_read_before_it():
    body = {"error": {"code": 404, "details": [{"retryDelay": "2s"}]}}
    answer = answer_of_json(body, status=503, retry_after_s=0.0)
    assert (answer.status, answer.canonical, answer.retry_after_s) == (503, "UNAVAILABLE", 0.0)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"error": "invalid_grant", "error_description": "it is over"}, "it is over"),
        ({"error": "invalid_grant"}, "invalid_grant"),
    ],
)
def test_an_oauth_error_is_told_by_its_description_or_else_by_its_code(body, told):
    answer = answer_of_json(body, status=400)
    assert (answer.surface, answer.codes, answer.message) == (Surface.AUTH, {"invalid_grant"}, told)


@pytest.mark.parametrize("body", [None, [], {}, {"error": 7}, "text"])
def test_a_body_without_an_error_is_told_by_the_text_beside_it(body):
    assert answer_of_json(body, text="a web page").message == "a web page"


@pytest.mark.parametrize(
    ("url", "surface", "place"),
    [
        (f"{ZONES}/us-east4-b/instances?x=/storage/v1/", Surface.COMPUTE, "us-east4-b"),
        ("https://x/v1/projects/p/locations/us-east4/customJobs/1", Surface.VERTEX, "us-east4"),
        ("https://x/storage/v1/b/my-bucket?alt=/compute/", Surface.STORAGE, ""),
        ("https://x/token", Surface.AUTH, ""),
        ("https://x/token/", Surface.PLATFORM, ""),
    ],
)  # fmt: skip
def test_whose_address_it_is_and_of_which_place_is_told_by_its_path(url, surface, place):
    assert (answer_of_json({}, url=url).surface, place_of(url)) == (surface, place)


@each(
    ("value", "told"),
    [("7", 7.0), ("30s", 30.0), ("1.5s", 1.5), ("", None), ("s", None), ("-1", None), (7, None)],
)
def test_a_wait_is_read_in_seconds(value, told):
    assert seconds(value) == told


def test_what_shows_an_answer_shows_nothing_of_its_content():
    moment = datetime(2026, 11, 20, tzinfo=timezone.utc)
    reply = Reply(status_code=200, reason="OK", url="u", headers={}, content=b"hush")
    stored = Stored(content=b"hush", generation=1, updated=moment, seen_at=moment)
    assert "hush" not in f"{reply!r} {stored!r} {Answer(raw='hush')!r}"


def test_threads_that_were_refused_together_renew_a_token_once():
    time_s, inner = [100.0], Token("old")
    credentials = LockedCredentials(inner, now=lambda: time_s[0])
    for seconds_later, refreshes in ((0.0, 1), (0.0, 1), (4.5, 1), (0.5, 2)):
        time_s[0] += seconds_later
        credentials.refresh(None)
        assert inner.refreshes == refreshes
    inner.token = None
    credentials.refresh(None)
    assert inner.refreshes == 3
    assert locked(credentials) is credentials


@each("kind", [OSError, ZeroDivisionError, AttributeError, KeyError, RecursionError, TypeError, ValueError])
def test_whatever_a_file_of_credentials_makes_google_auth_stumble_over_there_are_none(monkeypatch, kind):
    def stumble(**_):
        raise kind("over it")

    monkeypatch.setattr(google.auth, "default", stumble)
    with pytest.raises(DefaultCredentialsError, match=f"{kind.__name__}: .*over it"):
        locked(None)
