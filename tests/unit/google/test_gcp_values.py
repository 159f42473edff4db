"""Labels, filters, quotas, credentials, and what of an answer's body is taken for what."""

import hashlib
import re

from hypothesis import given, strategies as st

from gputrain.google import filter_text, label_value, our_labels


@given(st.text())
def test_any_text_has_a_label(text):
    assert re.fullmatch(r"[a-z0-9_-]{0,63}", label_value(text))


@given(st.text(), st.text())
def test_different_texts_have_different_labels(one, other):
    assert (label_value(one) == label_value(other)) == (one == other)


def test_a_label_stays_what_it_was_or_no_job_is_found_again():
    told = hashlib.sha256(b"X" * 99).hexdigest()
    assert label_value("X" * 99) == f"{'x' * 52}-{told[:10]}"
    assert our_labels("bert", {})["gputrain-name"] == "bert"


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
