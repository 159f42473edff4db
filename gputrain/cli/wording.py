"""Errors in the words of the command line: ``--num-nodes 2`` where Python says ``num_nodes=2``."""

from __future__ import annotations

import ast
import copy
import json
import re
import shlex
from collections.abc import Sequence
from typing import Any

import attrs

from gputrain.cli.parser import FLAGS
from gputrain.errors import GputrainError, RequestError, SpecError
from gputrain.fields import SHOWN
from gputrain.preflight import Checks
from gputrain.tables import Shown, Table

_PHRASES = (
    (r"entry=None: exactly one of script, module, command, function",
     "nothing to run: say one of SCRIPT, -m MODULE, or a command after --"),
    (r"\bdockerfile='Dockerfile'", "gputrain build Dockerfile"),
    (r", or give a timedelta|, a datetime or a timedelta", ""),
    (r"\b(Local|VertexAI|ComputeEngine)\(\.\.\.\) has", r"what is said of \1 has"),
    (r"gputrain\.attach\((['\"]?)([^()'\"]+)\1\)\.(logs|cancel|wait|metrics)\((?:tail=(\d+))?\)",
     r"gputrain \3 \2 --tail \4"),
    (r"gputrain\.attach\((['\"]?)([^()'\"]+)\1\)", r"gputrain wait \2"),
    (r"trainer\.experiment\((['\"]?)([^'\"()]+)\1\)\.retry_failed\(\), or run the script again",
     r"gputrain map SCRIPT --name \2 ... again"),
    (r"trainer\.experiment\((['\"]?)([^'\"()]+)\1\)(?:\.wait\(\))?", r"gputrain map --name \2"),
    (r"run the script with its trainer\.map\(\.\.\.\)", "run gputrain map SCRIPT ..."),
    (r"gputrain\.grid\(lr=\[0\.1, 0\.3\]\)|gputrain\.grid\(\)", "--grid lr=0.1,0.3"),
    (r"gputrain\.catalog\.machines\(\)", "`gputrain gpus KIND`"),
    (r"gputrain\.attach\(uri, backend=\w+\(\.\.\.\)\)", "gputrain wait URI --backend NAME"),
    (r", or pass credentials=", ""),
    (r"give endpoints=gputrain\.gcp\.Endpoints\(\.\.\.\) with", "use it from Python, with"),
    (r"\b(?:Local|VertexAI|ComputeEngine)\((?:\.\.\., )?([a-z_]+=[^()]+)\)", r"\1"),
    (r"Trainer\(\.\.\.\) (takes|has)", r"--backend \1"),
    (r"trainer\.(jobs|quotas|doctor)\(\)", r"gputrain \1"),
    (r"trainer\.clean_up\(\)", "gputrain clean-up"),
    (r"job\.logs\(grep=re\.escape\(text\)\)", "put \\\\ before what is meant as it stands"),
    (r"job\.(logs|cancel|wait|metrics)\(\)", r"gputrain \1 JOB"),
    (r"Trainer\(Local\(\)\)|Trainer\(\)", "--backend local"),
    (r"Trainer\(VertexAI\(\.\.\.\)\)", "--backend vertex"),
    (r"Trainer\(ComputeEngine\(\.\.\.\)\)", "--backend compute"),
    (r"\bsubmit\(\)", "gputrain submit"),
)  # fmt: skip
"""What has another form at a terminal, as patterns; the first ones first."""
_SCRIPT = "script='train.py'"
"""The remedy of a command without a script, which is to be a whole command."""
_SPOKEN = ("why", "fix", "allowed")
"""Keys of a document that hold sentences of ours."""
_CUT = rf"""[fb]?['"\[{{(][^\n]{{{SHOWN - 5},{SHOWN - 4}}}\.\.\.(?=: )"""
"""A value that was too long to be shown whole: the end of its quotation is not the next quote."""
_TEXT = r"""f?'[^'\n]*'|"[^"\n]*\""""
_VALUE = rf"""(?:{_CUT}|{_TEXT}|\[[^][\n]*\]|\{{[^{{}}\n]*\}}|\([^()\n]*\)|-?[\w./:@+-]*[\w/])"""
_NAMES = "|".join(sorted(FLAGS, key=len, reverse=True))
_GIVEN = rf"(?<![\w.'/-])(?P<field>{_NAMES})(?:\[[^]\n]*\])?=(?P<value>{_VALUE})?"
_LONG = re.compile(rf"(?<![\w.'/=-])({'|'.join(name for name in FLAGS if '_' in name)})(?![\w=(])")
_OBJECT = r"\[?[A-Z]\w+\([^()]*\)\]?|\.\.\."
_IN_FILE = rf"(?<![\w.'/$&?{{-])(?P<argument>[a-z][a-z_]+)=(?!=)(?P<literal>{_OBJECT}|{_VALUE})?"
"""An argument of a backend's that has no flag."""
_EITHER = re.compile(f"{_GIVEN}|{_IN_FILE}")
"""At one pass: what stands inside a value is somebody's, and stays."""
_LEFT_OUT = re.compile(rf"\b(leave|drop) ({_NAMES}) out\b")


def spoken(error: GputrainError, command: str = "submit") -> GputrainError:
    """The same error, as one reads it who typed a command; what a script or Google said stays as it is."""

    def said(text: str) -> str:
        return words(text.replace(_SCRIPT, f"gputrain {command} train.py"))

    told = copy.copy(error)
    told.fix = words(error.fix)
    if isinstance(error, RequestError) and error.raw is None:  # what is wrong with what was typed
        told.what = said(error.what)
    if isinstance(told, SpecError):
        told.faults = tuple(
            attrs.evolve(one, allowed=words(one.allowed), fix=said(one.fix)) for one in told.faults
        )
    return told


class Spoken(Shown):
    """Tables whose cells speak of flags instead of fields."""

    def __init__(self, parts: Sequence[Table]) -> None:
        self._tables = tuple(
            attrs.evolve(one, rows=[map(words, row) for row in one.rows], caption=words(one.caption))
            for one in parts
        )

    def _parts(self) -> Sequence[Table]:
        return self._tables


def checked(checks: Checks) -> Checks:
    """What a preflight found, with remedies as one types them."""
    return Checks(checks=[attrs.evolve(one, fix=words(one.fix)) for one in checks])


def document(told: Any) -> Any:
    """A document whose whys and remedies are as one types them."""
    if isinstance(told, list):
        return [document(one) for one in told]
    if not isinstance(told, dict):
        return told
    return {key: words(one) if key in _SPOKEN and isinstance(one, str) else document(one)
            for key, one in told.items()}  # fmt: skip


def words(text: str) -> str:
    """A sentence with flags and commands instead of fields and calls.

    >>> words("num_nodes=0: a whole number from 1 to 1000. Fix: num_nodes=2")
    '--num-nodes 0: a whole number from 1 to 1000. Fix: --num-nodes 2'
    """
    for pattern, instead in _PHRASES:
        text = re.sub(pattern, instead, text)
    text = re.sub(r"( --tail )(?!\d)", "", text) if "--tail" in text else text
    text = _EITHER.sub(_typed, text)
    text = _LEFT_OUT.sub(lambda one: f"{one[1]} {FLAGS[one[2]] or one[2]} out", text)
    return _LONG.sub(lambda one: FLAGS[one[1]], text)


def _typed(one: re.Match[str]) -> str:
    if one["field"]:
        return _flag(one["field"], one["value"] or "")
    return _setting(one["argument"], one["literal"] or "") or one[0]


def _toml(node: ast.expr) -> str:
    """A value of Python's as TOML writes it, an object of ours as a table. Raises ValueError: it cannot."""
    match node:
        case ast.Call(keywords=keywords):
            told = ", ".join(f"{one.arg} = {_toml(one.value)}" for one in keywords)
            return f"{{{told}}}"
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return f"[{', '.join(map(_toml, parts))}]"
    return json.dumps(ast.literal_eval(node))


def _setting(argument: str, literal: str) -> str:
    """How the file says an argument of a backend; empty where none has it."""
    from gputrain.cli.settings import FILE, sections

    where = sections().get(argument, ())
    if not where:
        return ""
    try:
        written = _toml(ast.parse(literal, mode="eval").body)
    except (ValueError, SyntaxError, TypeError):  # three dots of ours are no value
        written = literal or "..."
    return f"{argument} = {written} under {' or '.join(f'[{one}]' for one in where)} in {FILE}"


def _flag(field: str, literal: str) -> str:
    """How one says it: ``gpu=['L4:1', 'T4:1']`` is ``--gpu L4:1 --gpu T4:1``."""
    flag = FLAGS[field]
    try:
        value: Any = ast.literal_eval(literal)
    except (ValueError, SyntaxError):
        value = literal
    if value is True or value is None:
        return flag
    if value == [...]:
        return f"{flag} ..."
    if field in ("command", "args"):
        return f"-- {shlex.join(map(str, value))}" if isinstance(value, (list, tuple)) else f"-- {literal}"
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
        value = value[0]  # a point
    if isinstance(value, dict):
        value = [f"{name}={one}" for name, one in value.items()]
    said = value if isinstance(value, (list, tuple)) else [value]
    return " ".join(f"{flag} {_quoted(str(one))}".strip() for one in said) or flag


def _quoted(value: str) -> str:
    """As a shell takes it; three dots of ours stand for something, and are not quoted."""
    return value if not value or "..." in value or "…" in value else shlex.quote(value)
