"""The reference pages name everything that the code has, and nothing that it has not."""

import inspect
import re
from pathlib import Path

import attrs

from gputrain import State, TrainingSpec, errors

PAGES = Path(__file__).parents[2] / "docs" / "reference"


def first_column(page):
    text = (PAGES / page).read_text()
    return set(re.findall(r"^\| `([^`]+)`", text, re.MULTILINE))


def test_every_field_of_a_spec_is_on_its_page():
    assert first_column("spec.md") == {field.name for field in attrs.fields(TrainingSpec)}


def test_every_state_is_on_its_page():
    assert first_column("states.md") == {state.name for state in State}


def test_every_error_that_is_raised_is_on_its_page():
    tree = {
        cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, errors.GputrainError)
    }
    groups = {errors.GputrainError, errors.RequestError, errors.AccessError, errors.JobError}
    assert first_column("errors.md") == {cls.__name__ for cls in tree - groups}
