"""What a type checker sees of a refresh: read by mypy, never run."""

from typing_extensions import assert_type

from gputrain.gcp import Access
from gputrain.refresh import Change, ChangeKind, Refreshed, refresh
from gputrain.tables import Table

found = refresh(Access(project="my-project"), dry_run=True)
assert_type(found, Refreshed)
assert_type(found.changes, tuple[Change, ...])
assert_type(found.changes[0].kind, ChangeKind)
assert_type(found.changes[0].percent, float | None)
assert_type(found.table, Table)
