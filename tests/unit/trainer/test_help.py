"""What `help` and an editor tell of a trainer's calls."""

import inspect
import pydoc
import re

import pytest

from gputrain import Trainer
from gputrain.spec.types import PointFields, SpecFields


@pytest.mark.parametrize("call", ["plan", "doctor", "submit", "run", "map"])
def test_help_tells_the_fields_of_a_spec_by_name_type_default_and_meaning(call):
    named = PointFields if call == "map" else SpecFields
    shown = pydoc.plain(pydoc.render_doc(getattr(Trainer, call)))
    signature = inspect.signature(getattr(Trainer, call)).parameters
    assert set(named.__annotations__) <= set(signature)
    assert signature["num_nodes"].default == 1
    for name in named.__annotations__:
        assert re.search(rf"^ {{8}}{name}: \S", shown, re.MULTILINE), name
    assert "``standard``, ``spot``" in shown
    assert "**fields" not in shown
    assert "Raises:" in shown
