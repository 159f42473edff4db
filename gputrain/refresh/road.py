"""From Google's lists to the user's file: read, build, check, write."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

import attrs

from gputrain.catalog import load
from gputrain.catalog.load import UserFile
from gputrain.errors import ProviderError, RequestError
from gputrain.gcp import Access, Api, Listing
from gputrain.gcp.places import NO_ITEMS, aggregated
from gputrain.refresh import places, prices
from gputrain.refresh.stock import Change, Stock, stock, table
from gputrain.retry import READ
from gputrain.tables import Shown, Table
from gputrain.times import picked

Json = Mapping[str, Any]

COMPUTE_ENGINE = "services/6F81-5844-456A"
"""Compute Engine's name in the Cloud Billing catalog. Source: read 2026-11-20."""

_MACHINE = "name,zone,guestCpus,memoryMb,accelerators,deprecated"
_SKU = "description,category(usageType),serviceRegions,pricingInfo(pricingExpression(usageUnit,tieredRates))"


def machine_types(access: Access) -> Listing[Json]:
    """Every machine type of every zone."""
    return aggregated(access, "machineTypes", fields=_MACHINE, policy=READ).listing


def accelerator_types(access: Access) -> Listing[Json]:
    """Every accelerator type of every zone."""
    return aggregated(access, "acceleratorTypes", fields="name,zone,deprecated", policy=READ).listing


def skus(access: Access) -> Listing[Json]:
    """Every SKU of Compute Engine with its price in US dollars."""
    return access.pages(
        f"{access.url(Api.CLOUDBILLING)}/v1/{COMPUTE_ENGINE}/skus",
        action="read the price list",
        items="skus",
        params={"pageSize": "5000", "currencyCode": "USD", "fields": f"skus({_SKU}),nextPageToken"},
        headers={"x-goog-user-project": access.project},  # whose API has to be on: the address names none
    )


@attrs.frozen(kw_only=True)
class Refreshed(Shown):
    """What a refresh found, and where it wrote it."""

    day: str
    changes: tuple[Change, ...]
    file: str
    is_written: bool
    left_out: tuple[str, ...] = ()
    """What Google could not read; nothing was taken out of the tables there."""

    @property
    def table(self) -> Table:
        """The changes, for people."""
        where = f"written to {self.file}" if self.is_written else f"nothing was written to {self.file}"
        partial = f"; not read: {', '.join(self.left_out)}" if self.left_out else ""
        count = f"{len(self.changes)} changes" if self.changes else "nothing changed"
        return table(self.changes, title=f"Catalog of {self.day}", caption=f"{count}; {where}{partial}")

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON holds it, with every change."""
        return {
            **picked(self, "day file is_written left_out"),
            "changes": [change.to_dict() for change in self.changes],
        }


def refresh(access: Access, *, dry_run: bool = False, file: str | None = None) -> Refreshed:
    """Read Google's lists, and let what they say today win over the tables built in.

    Reads only: three lists, some 80 requests. Processes started afterwards answer from the new tables;
    removing the file brings the built-in ones back.

    Args:
        access: whose project to ask. Needs ``compute.machineTypes.list``, ``compute.acceleratorTypes.list``
            and ``serviceusage.services.use``, and the APIs compute and cloudbilling switched on.
        dry_run: write nothing.
        file: where to write; unless said, where the catalog looks for it: ``$GPUTRAIN_CATALOG``, else
            ``catalog.tsv`` in ``$GPUTRAIN_HOME`` or in the folder of the user's data.

    Returns:
        What changed against the tables before: the file's, or without one the built-in.

    Raises:
        AccessError: an API is off, or a permission is missing.
        ProviderError: the lists hold nothing of what they must hold.
        RequestError: the file cannot be written.
        TransientError: no answer for five minutes.
    """
    file = file or load.path()
    own = load.sound(file)
    seen = stock(machine_types(access), accelerator_types(access))
    listed = skus(access)
    book = prices.book(listed.seen)
    _plausible(seen, book)
    day = datetime.fromtimestamp(access.now(), tz=timezone.utc).date().isoformat()
    fresh, changes = built(own, seen, book, day=day)
    if not dry_run:
        write(file, load.written(fresh))
    left_out = (*seen.left_out, *listed.left_out)
    return Refreshed(day=day, changes=changes, file=file, is_written=not dry_run, left_out=left_out)


def built(
    own: UserFile | None, seen: Stock, book: prices.PriceBook, *, day: str
) -> tuple[UserFile, tuple[Change, ...]]:
    """The new file and what it changes, from the one in force (None: the built-in tables). Pure."""
    before = places.of_rows(load.merged("places", own))
    now = places.refreshed(before, seen)
    compute, billing = f"compute-{day}", f"billing-{day}"
    price_rows, moved = prices.merged(load.merged("prices", own), prices.refreshed(book, now), now, billing)
    sources = {
        compute: ("Compute Engine API: aggregated lists of machineTypes and acceleratorTypes", day),
        billing: (f"Cloud Billing API: {COMPUTE_ENGINE}/skus", day),
        **{key: (what, dated) for key, what, dated in (own.sources if own else ())},
    }
    place_rows = now.rows(compute)
    used = {row[-1] for row in price_rows} | {compute}
    fresh = UserFile(
        read_on=day,
        sources=tuple((key, *facts) for key, facts in sources.items() if key in used),
        places=place_rows,
        prices=price_rows,
    )
    return fresh, (*places.changes(before, now, seen), *moved, *book.odd)


def _plausible(seen: Stock, book: prices.PriceBook) -> None:
    """An empty list must not empty the catalog."""
    if not seen.machines and set(seen.left_out) <= {NO_ITEMS}:
        raise ProviderError(
            "Compute Engine lists no machine type with GPUs",
            why="its list came, and holds none of those that the catalog knows",
            fix="check that the project is the one you mean; nothing was changed",
        )
    if not book.rates:
        raise ProviderError(
            "the price list holds no GPU machine's price",
            why=f"{len(book.odd)} SKUs that should were not understood",
            fix="the names of SKUs may have changed: look for a newer gputrain; nothing was changed",
        )


def write(file: str, text: str) -> None:
    """Put a catalog's text in its place: all of it or nothing, whoever reads meanwhile.

    Raises:
        ValueError: it would not be believed afterwards.
        RequestError: the place takes no file.
    """
    load.parsed(text)
    file = os.path.realpath(file)
    folder = os.path.dirname(file)
    try:
        if os.path.exists(file) and not os.path.isfile(file):
            raise OSError("it is no file")  # such as /dev/null, which is how the user's file is switched off
        os.makedirs(folder, mode=0o700, exist_ok=True)
        handle, draft = tempfile.mkstemp(dir=folder, prefix=".catalog-")
        try:
            with os.fdopen(handle, "w", encoding="ascii", newline="\n") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            os.chmod(draft, 0o644)  # prices are no secret, and $GPUTRAIN_CATALOG may be for many
            os.replace(draft, file)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(draft)
            raise
    except OSError as error:
        raise RequestError(
            f"the refreshed catalog cannot be written to {file}",
            why=str(error),
            fix="set $GPUTRAIN_CATALOG to a file that you may write",
        ) from error
