from datetime import datetime, timezone

import pytest

from gputrain import SpecError
from gputrain.backends.base import LogLine, Status


@pytest.mark.parametrize(
    ("kind", "given", "field"),
    [(Status, {}, "started_at"), (Status, {}, "ended_at"), (LogLine, {"message": "hello"}, "time")],
)
def test_a_moment_without_its_time_zone_is_refused_where_it_is_told(kind, given, field):
    assert kind(**given, **{field: datetime(2026, 11, 23, tzinfo=timezone.utc)})
    with pytest.raises(SpecError, match=f"{kind.__name__}: {field}: .*a moment with its time zone"):
        kind(**given, **{field: datetime(2026, 11, 23)})
