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


def _number(least: float, most: float) -> Take:
    def take(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
            raise ValueError
        return float(value)

    return take


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


def _object(value: Any) -> Message:
    if not isinstance(value, dict):
        raise TypeError
    return value


def _form(**fields: Take) -> Take:
    return lambda value: {field: take(_object(value).get(field)) for field, take in fields.items()}


def _words(value: Any) -> Dict[str, str]:
    if len(_object(value)) > _LINES:
        raise ValueError
    return {_word(name): _word(one) for name, one in value.items()}


def _cause(value: Any) -> Message:
    """A cause: what it does not tell, or not as a cause does, is None."""
    told = {field: _told(field, _object(value).get(field)) for field in contract.CAUSE_FIELDS}
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


def _recorded(value: Any) -> Message:
    """Of the first so many process groups; a mesh of many dimensions makes hundreds."""
    counts = _form(begun=_count(-1, 1 << 62), done=_count(-1, 1 << 62), name=_word)
    return {_word(group): counts(value[group]) for group in list(_object(value))[:_GROUPS]}


def _whole_cause(value: Any) -> Message:
    return {**dict.fromkeys(contract.CAUSE_FIELDS), "kind": contract.EXIT, "message": "", **_cause(value)}


def _state(value: Any) -> str:
    if value not in tuple(contract.STATES):
        raise ValueError
    return str(value)


_STANDING = _form(
    rank=_count(0, _CODES),
    local_rank=_count(0, _CODES),
    collective=_prose,
    place=_prose,
    trace=_prose,
    absent=_or("", _prose),
    recorded=_or({}, _recorded),
)
_VERDICT = _form(
    state=_state,
    exit_code=_count(0, 255),
    cause=_or(None, _whole_cause),
    stop=_or(None, _form(reason=_prose, node_rank=_count(0, MANY))),
)

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
        "clock": _or(None, _number(-1e11, 1e11)),
    },
    "welcome": {"proof": _word, "join_s": _number(0, 1e9)},
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
        "age": _or(0.0, _number(0, 1e9)),
        "cause": _or(None, _cause),
    },
    "faulty": {"why": _prose},
    "quiet": {"is_quiet": _flag},
    "ping": {},
    "pong": {},
    "stand": {},
    "standings": {"ranks": _some(_STANDING, MANY)},
    "stop": {"reason": _prose, "node_rank": _or(0, _count(0, MANY)), "is_agreed": _or(False, _flag)},
    "abort": {"cause": _whole_cause},
    "over": {"verdict": _VERDICT},
}
"""Type of message -> field -> what it must be. The hub says what a node does not."""
