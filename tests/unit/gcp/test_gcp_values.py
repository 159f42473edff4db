"""Labels, filters and lists."""

import re

from hypothesis import given, strategies as st

from gputrain.gcp import Page, filter_text, label_value, our_labels, read_all
from gputrain.gcp.paging import left_out_of


@given(st.text())
def test_any_text_has_a_label(text):
    assert re.fullmatch(r"[a-z0-9_-]{0,63}", label_value(text))


@given(st.text(), st.text())
def test_different_texts_have_different_labels(one, other):
    assert (label_value(one) == label_value(other)) == (one == other)


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


def test_a_list_is_read_to_its_end():
    pages = {
        "": Page(items=(1, 2), next_token="b"),
        "b": Page(items=(3,), next_token="c"),
        "c": Page(items=()),
    }
    listing = read_all(pages.__getitem__)
    assert listing.items == (1, 2, 3)
    assert listing.is_whole


def test_a_partial_list_says_so():
    body = {"warning": {"code": "UNREACHABLE"}, "unreachable": ["us-east1"]}
    listing = read_all(lambda _: Page(items=(1,), left_out=left_out_of(body)))
    assert not listing.is_whole
    assert listing.left_out == ("us-east1", "UNREACHABLE")


def test_a_harmless_warning_does_not_make_a_list_partial():
    assert left_out_of({"warning": {"code": "DEPRECATED_RESOURCE_USED"}}) == ()


def test_a_list_that_repeats_itself_ends():
    assert not read_all(lambda _: Page(items=(1,), next_token="again")).is_whole
