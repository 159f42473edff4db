"""What a list over all zones says of each: what is there, that nothing is, or that nobody knows."""

import json

import pytest

from gputrain.gcp import Access, Endpoints
from gputrain.gcp.places import NO_ITEMS, aggregated
from tests.each import each
from tests.unit.gcp.answering import Token

A = {"instances": [{"name": "a"}]}
EMPTY = {"warning": {"code": "NO_RESULTS_ON_PAGE"}}


@pytest.fixture
def listed(serve):
    """The list of a project's VMs whose pages come one after the other."""

    def read(*pages):
        answers = iter(pages)
        server = serve(lambda _: (200, json.dumps(next(answers)).encode(), {}))
        endpoints = Endpoints(compute=server.url)
        access = Access(project="p", credentials=Token(), endpoints=endpoints, sleep=lambda _: None)
        return aggregated(access, "instances", fields="name")

    return read


@each(
    ("part", "names"),
    [
        (A, {"a"}),
        (EMPTY, set()),
        ({"instances": []}, set()),
        ({**A, "warning": {"code": "UNREACHABLE"}}, None),
        ({"warning": {"code": "UNREACHABLE"}}, None),
        ({}, None),
        ({"instances": {"name": "a"}}, None),
        ({"instances": [{"name": "a"}, 7]}, None),
        ({"instances": 7}, None),
        (7, None),
    ],
)
def test_a_zone_is_known_where_its_part_can_be_read_or_says_that_it_is_empty(listed, part, names):
    found = listed({"items": {"zones/x-a": part, "zones/x-b": {"instances": [{"name": "b"}]}}})
    assert (found.names("x-a"), found.names("x-b")) == (names, {"b"})
    assert found.listing.left_out == (("x-a",) if names is None else ())


def test_a_zone_that_the_list_does_not_name_is_unknown(listed):
    assert listed({"items": {"zones/x-a": EMPTY}}).names("x-b") is None


def test_a_zone_that_is_said_to_be_out_of_reach_is_unknown_though_some_of_it_came(listed):
    found = listed({"items": {"zones/x-a": A, "zones/x-b": A}, "unreachables": ["projects/p/zones/x-a"]})
    assert (found.names("x-a"), found.names("x-b")) == (None, {"a"})
    assert (found.listing.left_out, len(found.listing.seen)) == (("x-a",), 2)


def test_pages_are_read_to_the_end_and_what_one_lacks_no_other_makes_up_for(listed):
    b = {"instances": [{"name": "b"}]}
    found = listed(
        {"items": {"zones/x-a": A, "zones/x-b": {}}, "nextPageToken": "2"},
        {"items": {"zones/x-a": b, "zones/x-b": b}},
    )
    assert (found.names("x-a"), found.names("x-b")) == ({"a", "b"}, None)


@pytest.mark.parametrize(
    ("page", "why"),
    [
        ({}, NO_ITEMS),
        ({"items": {}}, NO_ITEMS),
        ({"items": {"zones/x-a": A}, "warning": {"code": "UNREACHABLE"}}, "UNREACHABLE"),
    ],
)
def test_of_a_list_that_is_not_whole_without_naming_a_zone_no_zone_is_known(listed, page, why):
    found = listed(page)
    assert found.names("x-a") is None
    assert found.listing.left_out == (why,)


def test_a_list_that_names_only_zones_out_of_reach_says_so_and_no_more(listed):
    assert listed({"unreachables": ["projects/p/zones/x-a"]}).listing.left_out == ("x-a",)
