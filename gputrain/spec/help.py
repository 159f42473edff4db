"""What `help()` tells of a call that takes a spec's fields: each by name, type, default and meaning."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

from gputrain.spec.training import TrainingSpec
from gputrain.spec.typed import DEFAULTS

F = TypeVar("F", bound=Callable[..., Any])
FIELD = re.compile(r"^ {4}(\w+): .*\n(?: {8}.*\n)*", re.MULTILINE)
REST = re.compile(r"^ {4}\*\*fields: .*\n", re.MULTILINE)


def tells_fields(named: type) -> Callable[[F], F]:
    """Decorates what hands its ``**fields`` on to `TrainingSpec`: it shows those of a typed mapping."""
    types = {name: getattr(one, "__forward_arg__", one) for name, one in named.__annotations__.items()}
    rows = FIELD.finditer(inspect.cleandoc(TrainingSpec.__doc__ or ""))
    meanings = "".join(row[0] for row in rows if row[1] in types)

    def decorate(function: F) -> F:
        own = inspect.signature(function)
        fields = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=DEFAULTS.get(name), annotation=annotation
            )
            for name, annotation in types.items()
        ]
        kept = [one for one in own.parameters.values() if one.kind is not one.VAR_KEYWORD]
        function.__signature__ = own.replace(parameters=[*kept, *fields])  # type: ignore[attr-defined]  # as inspect reads it
        function.__doc__ = REST.sub(lambda _: meanings, inspect.cleandoc(function.__doc__ or ""))
        return function

    return decorate
