"""The form of a record on its board, as it is written and read: whatever has another is none, and says so."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

import attrs

from gputrain.errors import RequestError
from gputrain.planning.candidates import NAME
from gputrain.records.record import LARGEST_BYTES, Ask, Code, Record, Way, checked
from gputrain.records.spec import RecordError

T = TypeVar("T")

SCHEMA = 1
MOST_WAYS = 20_000
MOST_NAMES = 2_000
LATEST = 7_258_118_400.0
"""The year 2200, in seconds since 1970."""
MOST_USD, LEAST_USD = 1e9, 1e-9
MOST_RESTARTS = 1000
"""As many as a spec may ask for."""
_NONCE = re.compile(r"[0-9a-f]{8,32}")
_WORD = re.compile(r"[a-z0-9_ -]{0,64}")


class DamagedRecordError(RecordError):
    """No release reads it: what was asked for the job, nobody can say any more."""


class _OtherSchemaError(ValueError):
    """Another release may read it."""


def written(record: Record) -> bytes:
    """The record as it lies on its board: nobody writes what nobody could read.

    Raises:
        RequestError: it is too large, or a backend put into it what is no name.
    """
    kept = attrs.filters.exclude("generation", "written_at", "age_s")
    fields = attrs.asdict(record, filter=kept, value_serializer=_plain)
    try:
        content = checked(record.job_id, json.dumps({"schema": SCHEMA, **fields}, sort_keys=True).encode())
        read_record(record.job_id, content)
    except (RecordError, TypeError) as error:
        raise RequestError(
            f"what is to be kept of {record.job_id} could not be read again, and nothing was asked for",
            why=error.why if isinstance(error, RecordError) else str(error),
            fix=f"tell whoever wrote the backend {record.backend}, whose names or settings these are",
        ) from error
    return content


def read_record(job_id: str, content: bytes) -> Record:
    """The record of a job.

    Raises:
        DamagedRecordError: it is no record, or that of another job.
        RecordError: it is that of another release.
    """
    try:
        return _record(job_id, content)
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        kind = RecordError if isinstance(error, _OtherSchemaError) else DamagedRecordError
        raise kind(
            f"what is kept of {job_id} is no record",
            why=f"{type(error).__name__}: {str(error)[:200]}",
            fix="find out who can write to the bucket; a release of gputrain that is newer may read it",
        ) from error


def _record(job_id: str, content: bytes) -> Record:
    if len(content) > LARGEST_BYTES:
        _refuse("it is too large")
    fields = _mapping(json.loads(content.decode()))
    if fields["schema"] != SCHEMA:
        raise _OtherSchemaError(f"its schema is {str(fields['schema'])[:20]}")
    if fields["job_id"] != job_id:
        _refuse("it is that of another job")
    code = _mapping(fields["code"])
    return Record(
        job_id=job_id,
        home=_text(fields["home"]),
        spec=_mapping(fields["spec"]),
        code=Code(
            location=_text(code["location"]),
            argv=_all(code["argv"], _text, LARGEST_BYTES),
            sha256=_matching(re.compile("(?:[0-9a-f]{64})?"))(code["sha256"]),
        ),
        ways=_all(fields["ways"], _way, MOST_WAYS),
        asks=_all(fields["asks"], _ask, MOST_NAMES),
        used_s=_whole(fields["used_s"]),
        used_usd=_money(fields["used_usd"]),
        created_at=_moment(fields["created_at"]),
        waiting_since=_moment(fields["waiting_since"]),
        over=_matching(_WORD)(fields["over"]),
        settings={
            _text(name): {_text(key): _text(value) for key, value in _mapping(one).items()}
            for name, one in _mapping(fields["settings"]).items()
        },
    )


def _plain(_instance: object, _field: object, value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


def _way(value: object) -> Way:
    fields = _mapping(value)
    return Way(
        **{name: _matching(NAME)(fields[name]) for name in ("backend", "place", "region")},
        **{name: _text(fields[name]) for name in ("gpu", "gpu_count", "machine_type", "model")},
        missing_nodes=_whole(fields.get("missing_nodes", 0)),
    )


def _ask(value: object) -> Ask:
    fields = _mapping(value)
    price = fields["price_usd_h"]
    return Ask(
        way=_way(fields["way"]),
        attempt=_whole(fields["attempt"], MOST_RESTARTS),
        names=_all(fields["names"], _matching(NAME), MOST_NAMES),
        nonce=_matching(_NONCE)(fields["nonce"]),
        price_usd_h=None if price is None else _money(price),
        at=_moment(fields["at"]),
        answer=_matching(_WORD)(fields["answer"]),
        scope=_matching(_WORD)(fields["scope"]),
        said=_text(fields["said"]),
        image=_text(fields.get("image", "")),
        is_shared=fields.get("is_shared") is True,
        may_come=fields.get("may_come") is True,
    )


def _refuse(why: str) -> NoReturn:
    raise ValueError(why)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else _refuse("an object was due")


def _text(value: object) -> str:
    return value if isinstance(value, str) else _refuse("a text was due")


def _matching(form: re.Pattern[str]) -> Callable[[object], str]:
    def read(value: object) -> str:
        text = _text(value)
        return text if form.fullmatch(text) else _refuse(f"{text[:40]!r} has not the form {form.pattern}")

    return read


def _whole(value: object, most: int = 1 << 40) -> int:
    is_one = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most
    return value if is_one and isinstance(value, int) else _refuse(f"a count of at most {most} was due")


def _number(value: object, most: float) -> float:
    is_one = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= most
    return float(value) if is_one and isinstance(value, (int, float)) else _refuse("another number was due")


def _moment(value: object) -> float:
    """Seconds since 1970 that are a date, in every arithmetic that is done with them."""
    return _number(value, LATEST)


def _money(value: object) -> float:
    """US dollars, of which nobody has so many, or pays so few."""
    usd = _number(value, MOST_USD)
    return usd if not usd or usd >= LEAST_USD else _refuse("it is too little to be a price")


def _all(value: object, read: Callable[[object], T], most: int) -> tuple[T, ...]:
    if not isinstance(value, list) or len(value) > most:
        _refuse(f"a list of at most {most} was due")
    return tuple(read(one) for one in value)
