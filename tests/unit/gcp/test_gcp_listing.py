"""A list knows whether it is whole, and only a whole one says what is gone."""

import pytest

from gputrain.errors import TransientError
from gputrain.gcp import Page, WholeListing, read_all
from gputrain.gcp.listing import left_out_of, listing_of, page_of


def test_a_list_is_read_to_its_end():
    pages = {
        "": Page(items=(1, 2), next_token="b"),
        "b": Page(items=(3,), next_token="c"),
        "c": Page(items=()),
    }
    assert read_all(pages.__getitem__) == WholeListing((1, 2, 3))


def test_what_one_page_leaves_out_the_whole_list_lacks():
    pages = {"": Page(items=(1,), next_token="b", left_out=("us-east1",)), "b": Page(items=(2,))}
    listing = read_all(pages.__getitem__)
    assert (listing.seen, listing.left_out) == ((1, 2), ("us-east1",))


def test_a_list_that_repeats_itself_ends_and_is_not_whole():
    assert not read_all(lambda _: Page(items=(1,), next_token="again")).is_whole


def test_only_a_whole_list_lacks_something():
    is_two = (2).__eq__
    assert listing_of([1]).lacks(is_two)
    assert not listing_of([1, 2]).lacks(is_two)
    assert not listing_of([1], ["us-east1"]).lacks(is_two)
    assert not listing_of([1, 2], ["us-east1"]).lacks(is_two)


def test_a_partial_list_is_never_taken_for_a_whole_one():
    assert listing_of([1]).whole("list them") == (1,)
    with pytest.raises(TransientError, match="list them") as caught:
        listing_of([1], ["us-east1"]).whole("list them")
    assert "us-east1" in caught.value.why


def test_a_list_is_neither_true_nor_false():
    for listing in (listing_of([]), listing_of([1])):
        with pytest.raises(TypeError, match="partial"):
            bool(listing)


def test_other_values_of_a_partial_list_are_partial_as_well():
    assert listing_of([1], ["us-east1"]).map(str) == listing_of(["1"], ["us-east1"])


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"warning": {"code": "UNREACHABLE"}, "unreachable": ["us-east1"]}, ("us-east1", "UNREACHABLE")),
        ({"unreachables": ["projects/p/zones/us-east1-b"]}, ("us-east1-b",)),
        ({"warnings": [{"code": "PARTIAL_SUCCESS"}]}, ("PARTIAL_SUCCESS",)),
        ({"warning": {"code": "DEPRECATED_RESOURCE_USED"}}, ()),
        ({"warning": ["UNREACHABLE"], "unreachable": 3, "warnings": {}}, ()),
    ],
)
def test_a_partial_list_says_so(body, told):
    assert left_out_of(body) == told


@pytest.mark.parametrize("body", [{"items": {}}, {"items": [3]}, {"items": None}, {"nextPageToken": 3}])
def test_what_cannot_be_read_is_left_out(body):
    assert page_of(body, "items").left_out


def test_a_partial_list_has_nothing_that_could_be_taken_for_all_there_is():
    told = {name for name in dir(listing_of([1], ["us-east1"])) if not name.startswith("_")}
    assert told == {"find", "is_whole", "lacks", "left_out", "map", "seen", "whole"}
