"""What agents say to each other: the type and the bounds of every field, looked at before anything else is.

Whoever reaches a port may send any line. So no line comes further than `read` but in one of these forms:
what a form does not name is dropped, prose is cut, and anything else is `NONSENSE`. Nothing here raises.
"""

from __future__ import annotations

from . import contract
from .options import MANY, is_address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List

    Message = Dict[str, Any]
    Take = Callable[[Any], Any]

NONSENSE = "nonsense"
"""The type that `read` gives to a message without a form, or with a field that does not fit it."""

WORD = 1_000
PROSE = 16_000
_CODES = 1 << 31
_LINES = 100
_GROUPS = 1 << 10
_COUNTS = (contract.C_RANK, contract.C_LOCAL_RANK, contract.C_NODE_RANK, contract.C_EXIT_CODE)


def read(said: Message) -> Message:
    """A message of a known form, or one of type `NONSENSE` that tells what was wrong with it."""
    form = FORMS.get(said["type"])
    if form is None:
        return {"type": NONSENSE, "why": "there is no such message"}
    message, field = {"type": said["type"]}, ""
    try:
        for field, take in form.items():
            message[field] = take(said.get(field))
    except (TypeError, ValueError):
        return {"type": NONSENSE, "why": f"the {field} of its {said['type']} is not one"}
    return message


def _word(value: Any) -> str:
    """A short text, to be compared: whole or not at all."""
    text = _prose(value)
    if len(text) > WORD or text != value:
        raise ValueError
    return text


def _prose(value: Any) -> str:
    """A text for people: cut, and without the half characters that no stream can write."""
    if not isinstance(value, str):
        raise TypeError
    return value[:PROSE].encode("utf-8", "backslashreplace").decode()


def _address(value: Any) -> str:
    text = _word(value)
    if not is_address(text.partition("%")[0]):  # a link-local one may name its interface
        raise ValueError
    return text


def _count(least: int, most: int) -> Take:
    def take(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ValueError
        return value

    return take


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e9:
        raise ValueError
    return float(value)


def _moment(value: Any) -> float:
    """Seconds since 1970, of any clock."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e11:
        raise ValueError
    return float(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _or(default: Any, take: Take) -> Take:
    """A field that may be left out."""
    return lambda value: default if value is None else take(value)


def _some(take: Take, most: int) -> Take:
    def each(value: Any) -> List[Any]:
        if not isinstance(value, list) or len(value) > most:
            raise ValueError
        return [take(one) for one in value]

    return each


def _words(value: Any) -> Dict[str, str]:
    if not isinstance(value, dict) or len(value) > _LINES:
        raise ValueError
    return {_word(name): _word(one) for name, one in value.items()}


def _cause(value: Any) -> Message:
    """A cause: what it does not tell, or not as a cause does, is None."""
    if not isinstance(value, dict):
        raise TypeError
    told = {field: _told(field, value.get(field)) for field in contract.CAUSE_FIELDS}
    return {field: one for field, one in told.items() if one is not None}


def _told(field: str, value: Any) -> Any:
    take = _count(-_CODES, _CODES) if field in _COUNTS else _prose
    if field == contract.C_LAST_LINES:
        take = _some(_prose, _LINES)
    try:
        told = take(value)
    except (TypeError, ValueError):
        return None
    return None if field == contract.C_KIND and told not in contract.CAUSE_KINDS else told


def _standing(value: Any) -> Message:
    if not isinstance(value, dict):
        raise TypeError
    ranks = {field: _count(0, _CODES)(value.get(field)) for field in ("rank", "local_rank")}
    texts = {field: _prose(value.get(field)) for field in ("collective", "place", "trace")}
    texts["absent"] = _or("", _prose)(value.get("absent"))
    return {**ranks, **texts, "recorded": _or({}, _recorded)(value.get("recorded"))}


def _recorded(value: Any) -> Message:
    """Of the first so many process groups; a mesh of many dimensions makes hundreds."""
    if not isinstance(value, dict):
        raise TypeError
    return {_word(group): _counts(value[group]) for group in list(value)[:_GROUPS]}


def _counts(value: Any) -> Message:
    if not isinstance(value, dict):
        raise TypeError
    counts = {field: _count(-1, 1 << 62)(value.get(field)) for field in ("begun", "done")}
    return {**counts, "name": _word(value.get("name"))}


def _stop(value: Any) -> Message:
    if not isinstance(value, dict):
        raise TypeError
    return {"reason": _prose(value.get("reason")), "node_rank": _count(0, MANY)(value.get("node_rank"))}


def _whole_cause(value: Any) -> Message:
    return {**dict.fromkeys(contract.CAUSE_FIELDS), "kind": contract.EXIT, "message": "", **_cause(value)}


def _verdict(value: Any) -> Message:
    if not isinstance(value, dict) or value.get(contract.R_STATE) not in tuple(contract.STATES):
        raise ValueError
    return {
        contract.R_STATE: value[contract.R_STATE],
        contract.R_EXIT_CODE: _count(0, 255)(value.get(contract.R_EXIT_CODE)),
        contract.R_CAUSE: _or(None, _whole_cause)(value.get(contract.R_CAUSE)),
        contract.R_STOP: _or(None, _stop)(value.get(contract.R_STOP)),
    }


FORMS: Dict[str, Dict[str, Take]] = {
    "challenge": {"nonce": _word},
    "hello": {
        "nonce": _word,
        "proof": _word,
        "job": _word,
        "attempt": _word,
        "num_nodes": _count(1, MANY),
        "node_rank": _count(0, MANY),
        "nproc": _count(1, MANY),
        "host": _word,
        "addr": _address,
        "port": _count(0, MANY - 1),
        "versions": _words,
        "clock": _or(None, _moment),
    },
    "welcome": {"proof": _word, "join_s": _seconds},
    "refused": {"proof": _word, "why": _prose},
    "start": {
        "base_rank": _count(0, _CODES),
        "world_size": _count(1, _CODES),
        "addrs": _some(_address, MANY),
        "ports": _some(_count(0, MANY - 1), MANY),
    },
    "ended": {
        "local_rank": _count(0, MANY),
        "exit_code": _count(0, 255),
        "age": _or(0.0, _seconds),
        "cause": _or(None, _cause),
    },
    "faulty": {"why": _prose},
    "quiet": {"is_quiet": _flag},
    "ping": {},
    "pong": {},
    "stand": {},
    "standings": {"ranks": _some(_standing, MANY)},
    "stop": {"reason": _prose, "node_rank": _or(0, _count(0, MANY)), "is_agreed": _or(False, _flag)},
    "abort": {"cause": _whole_cause},
    "over": {"verdict": _verdict},
}
"""Type of message -> field -> what it must be. The hub says what a node does not."""
