"""Rebuilds the catalog's dated tables, prices and places, from Google's own lists.

::

    refresh(Access(project="my-project"), dry_run=True)     what is otherwise; nothing is written
    refresh(Access(project="my-project"))                   write the user's file, which wins from now on
"""

from gputrain.refresh.road import Refreshed, refresh
from gputrain.refresh.stock import Change, ChangeKind

__all__ = ["Change", "ChangeKind", "Refreshed", "refresh"]
