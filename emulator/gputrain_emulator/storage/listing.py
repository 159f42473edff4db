"""objects.list: prefix, delimiter, offsets, globs, versions and pages over a bucket's sorted names."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass

from gputrain_emulator.patterns import compiled
from gputrain_emulator.storage.objects import Objects
from gputrain_emulator.storage.refusals import invalid
from gputrain_emulator.storage.tokens import decode, encode
from gputrain_emulator.storage.values import Stored

MAX_PAGE = 1000
_LAST = "\U0010ffff"
_END = 2**63


class Which(enum.Enum):
    """Which of a bucket's objects a list is about."""

    LIVE = "live"
    ALL = "all"
    """With the noncurrent generations."""
    SOFT_DELETED = "soft-deleted"


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a list call asks for."""

    prefix: str = ""
    delimiter: str = ""
    start: str = ""
    end: str = ""
    glob: str = ""
    include_trailing_delimiter: bool = False
    page_size: int = MAX_PAGE
    page_token: str = ""
    which: Which = Which.LIVE


@dataclass(frozen=True, kw_only=True)
class Page:
    items: tuple[Stored, ...]
    prefixes: tuple[str, ...]
    next_token: str


def page(objects: Objects, bucket: str, wanted: Wanted) -> Page:
    """One page, in the order of names; objects and prefixes count alike towards its size."""
    after = _place(wanted.page_token)
    start = max(wanted.prefix, wanted.start, after[0])
    pattern = _pattern(wanted.glob) if wanted.glob else None
    items: list[Stored] = []
    prefixes: list[str] = []
    size = min(wanted.page_size or MAX_PAGE, MAX_PAGE)
    last = after
    for stored in _within(_found(objects, bucket, wanted.which, start), wanted):
        # A live object that was written anew between two pages is not told twice.
        place = stored.name, _END if wanted.which is Which.LIVE else stored.generation
        if place <= after or (pattern is not None and not pattern.fullmatch(stored.name)):
            continue
        folder = _folder(stored.name, wanted)
        if folder and prefixes and prefixes[-1] == folder:
            if wanted.include_trailing_delimiter and stored.name == folder:
                items.append(stored)
            continue
        if len(items) + len(prefixes) >= size:
            return Page(items=tuple(items), prefixes=tuple(prefixes), next_token=_token(last))
        if folder:
            prefixes.append(folder)
        if not folder or (wanted.include_trailing_delimiter and stored.name == folder):
            items.append(stored)
        last = (folder + _LAST, 0) if folder else place
    return Page(items=tuple(items), prefixes=tuple(prefixes), next_token="")


def _found(objects: Objects, bucket: str, which: Which, start: str) -> list[Stored]:
    if which is Which.ALL:
        return objects.walk_all(bucket, start)
    if which is Which.SOFT_DELETED:
        return objects.walk_soft_deleted(bucket, start)
    return objects.walk(bucket, start)


def _token(place: tuple[str, int]) -> str:
    return encode(f"{place[1]}/{place[0]}")


def _place(token: str) -> tuple[str, int]:
    """The name and the generation after which a page begins."""
    generation, _, name = decode(token).partition("/")
    if token and not re.fullmatch("[0-9]{1,19}", generation):
        raise invalid("Invalid value for pageToken.")
    return name, int(generation or 0)


def _within(found: Iterable[Stored], wanted: Wanted) -> Iterable[Stored]:
    for stored in found:
        if not stored.name.startswith(wanted.prefix):
            if stored.name > wanted.prefix:
                return
            continue
        if wanted.end and stored.name >= wanted.end:
            return
        yield stored


def _folder(name: str, wanted: Wanted) -> str:
    if not wanted.delimiter:
        return ""
    at = name.find(wanted.delimiter, len(wanted.prefix))
    return name[: at + len(wanted.delimiter)] if at >= 0 else ""


def _pattern(glob: str) -> re.Pattern[str]:
    try:
        return compiled(_glob(glob), re.DOTALL)
    except ValueError:
        raise invalid("Invalid value for matchGlob.") from None


def _glob(glob: str) -> str:
    """A matchGlob as a regular expression: `**` crosses slashes, `*` and `?` do not, `{a,b}` is either."""
    out, at, depth = [], 0, 0
    while at < len(glob):
        c = glob[at]
        if glob.startswith("**", at):
            out.append(".*")
            at += 1
        elif c in "*?":
            out.append("[^/]*" if c == "*" else "[^/]")
        elif c == "[" and "]" in glob[at + 2 :]:
            end = glob.index("]", at + 2)
            inner = glob[at + 1 : end]
            negated = inner.startswith("!")
            out.append("[" + ("^" if negated else "") + re.escape(inner[negated:]).replace(r"\-", "-") + "]")
            at = end
        elif c in "{}":
            depth += 1 if c == "{" else -1
            out.append("(?:" if c == "{" else ")")
        else:
            out.append("|" if c == "," and depth else re.escape(c))
        at += 1
    if depth:
        raise invalid("Invalid value for matchGlob.")
    return "".join(out)
