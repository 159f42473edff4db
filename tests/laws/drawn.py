"""Laws over drawn values: a few examples in `make test`, many in `make soak`."""

import functools
import inspect

import pytest
from hypothesis import HealthCheck, given, settings

COUNT = "count_of_examples"


def drawn(few, many, **strategies):
    """As hypothesis.given, once with few examples and once, marked soak, with many."""

    def decorate(law):
        @functools.wraps(law)
        def run(**fixtures):
            count = fixtures.pop(COUNT)
            shared = [HealthCheck.function_scoped_fixture]
            settings(max_examples=count, deadline=None, suppress_health_check=shared)(
                given(**strategies)(law)
            )(**fixtures)

        names = [COUNT, *(name for name in inspect.signature(law).parameters if name not in strategies)]
        kind = inspect.Parameter.KEYWORD_ONLY
        run.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])
        return pytest.mark.parametrize(COUNT, [few, pytest.param(many, marks=pytest.mark.soak)])(run)

    return decorate
