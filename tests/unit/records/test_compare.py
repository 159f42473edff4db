"""What differs between two asks under one key is told, and no secret with it."""

import pytest

from gputrain.records import ConflictError, check_alike

TOKEN = "hf_" + "aB3" * 12


@pytest.mark.parametrize(
    ("kept", "asked"),
    [
        ({"args": ["--token", TOKEN]}, {"args": ["--token", "other"]}),
        ({"command": ["run"]}, {"command": ["run", f"https://me:{TOKEN}@example.com/x"]}),
        ({"requirements": [f"git+https://me:{TOKEN}@example.com/x"]}, {}),
        ({"env": {"HF_TOKEN": TOKEN}}, {"env": {"HF_TOKEN": "other"}}),
    ],
)
def test_a_conflict_names_the_field_and_shows_no_secret(kept, asked):
    with pytest.raises(ConflictError) as caught:
        check_alike(kept, asked, "asked for before", "take another key")
    (field,) = {*kept, *asked}
    assert caught.value.differs == (field,)
    assert field in str(caught.value)
    assert TOKEN not in f"{caught.value} {caught.value.why!r}"


def test_what_is_no_secret_is_shown_on_both_sides():
    with pytest.raises(ConflictError, match=r"num_nodes=1 \(here 2\)"):
        check_alike({"num_nodes": 1}, {"num_nodes": 2}, "asked for before", "take another key")
