"""Labels, filters, quotas and credentials."""

import re

import pytest
from hypothesis import given, strategies as st

from gputrain.gcp import Access, Endpoints, filter_text, label_value, our_labels
from gputrain.gcp.answer import LONGEST, QuotaFact, cut
from gputrain.gcp.credentials import LockedCredentials
from gputrain.gcp.forms import whole_number
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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
    ],
)
def test_a_count_is_a_whole_number_from_zero_on(value, count):
    assert whole_number(value) == count
