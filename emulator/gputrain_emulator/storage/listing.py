"""objects.list: prefix, delimiter, offsets and pages over a bucket's sorted names."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass

from gputrain_emulator.storage.buckets import Stored
from gputrain_emulator.storage.objects import Objects
from gputrain_emulator.storage.refusals import invalid

MAX_PAGE = 1000
_LAST = "\U0010ffff"


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a list call asks for."""

    prefix: str = ""
    delimiter: str = ""
    start: str = ""
    end: str = ""
    include_trailing_delimiter: bool = False
    page_size: int = MAX_PAGE
    page_token: str = ""


@dataclass(frozen=True, kw_only=True)
class Page:
    items: tuple[Stored, ...]
    prefixes: tuple[str, ...]
    next_token: str


def page(objects: Objects, bucket: str, wanted: Wanted) -> Page:
    """One page, in the order of names; objects and prefixes count alike towards its size."""
    last = decode(wanted.page_token)
    items: list[Stored] = []
    prefixes: list[str] = []
    size = min(wanted.page_size or MAX_PAGE, MAX_PAGE)
    for stored in _within(objects.walk(bucket, max(wanted.prefix, wanted.start, last)), wanted):
        if stored.name <= last:  # of the pages before, or in a folder that is told
            continue
        folder = _folder(stored.name, wanted)
        if len(items) + len(prefixes) >= size:
            return Page(items=tuple(items), prefixes=tuple(prefixes), next_token=encode(last))
        if folder:
            prefixes.append(folder)
        if not folder or (wanted.include_trailing_delimiter and stored.name == folder):
            items.append(stored)
        last = folder + _LAST if folder else stored.name
    return Page(items=tuple(items), prefixes=tuple(prefixes), next_token="")


def encode(name: str) -> str:
    """The token of a page that begins after a name."""
    return base64.urlsafe_b64encode(name.encode("utf-8", "surrogatepass")).decode()


def decode(token: str) -> str:
    """What was encoded; 400 for a token that is none."""
    try:
        return base64.b64decode(token, altchars=b"-_", validate=True).decode("utf-8", "surrogatepass")
    except (binascii.Error, UnicodeError, ValueError):
        raise invalid("Invalid value for pageToken.") from None


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
