"""The filters of Google's lists: text in, a test of a document out.

It is Google's AIP-160 grammar as cloud.google.com/logging/docs/view/logging-query-language describes it
(read 2026-11-20), without functions, comments and lists of values: `NOT` binds tightest, then `OR`, then
`AND`; two terms side by side are an `AND`; a field path may hold quoted parts. Compute Engine's older
`name eq REGEX` is read too. What a leaf means is the list's own: see `compiled`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

_BLANK = re.compile(r"\s*")
_QUOTED = r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\''
_PART = rf"(?:{_QUOTED}|[^\s()\"'=<>!:,.]+)"
_PATH = re.compile(rf"{_PART}(?:\.{_PART})*", re.DOTALL)
_VALUE = re.compile(rf"{_QUOTED}|[^\s()\"',=<>!:][^\s()\"',]*", re.DOTALL)
_OPERATOR = re.compile(r"!=|=~|!~|>=|<=|=|>|<|:|(?:eq|ne)(?=[\s\"'])")
_WORD = re.compile(r"(AND|OR|NOT)(?=[\s()\"']|$)")
ORDER: Mapping[str, Callable[[Any, Any], bool]] = MappingProxyType(
    {
        "=": operator.eq, ":": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
        ">": operator.gt, ">=": operator.ge,
    }
)  # fmt: skip


class FilterError(ValueError):
    """The filter cannot be read; the text says where."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Leaf:
    """`path operator value`, or a bare word (no operator)."""

    path: tuple[str, ...]
    operator: str = ""
    value: str = ""


Test = Callable[[Any], bool]
Meaning = Callable[[Leaf], Test]


def compiled(text: str, meaning: Meaning) -> Test:
    """The test that a filter is, given the test that each of its leaves is; an empty one holds always.

    Raises:
        FilterError: where the text stops being a filter, or `meaning` says so of a leaf.
    """
    reader = _Reader(text, meaning)
    if reader.at_end():
        return lambda _: True
    try:
        test = reader.conjunction()
    except RecursionError:
        raise FilterError("filter is nested too deeply") from None
    if not reader.at_end():
        raise reader.error()
    return test


class _Reader:
    """Recursive descent over the text; `at` is how far it has been read."""

    def __init__(self, text: str, meaning: Meaning) -> None:
        self.text, self.meaning = text, meaning
        self.at = 0

    def at_end(self) -> bool:
        self.skip_blank()
        return self.at >= len(self.text)

    def conjunction(self) -> Test:
        tests = [self.disjunction()]
        while not self.at_end() and self.text[self.at] != ")":
            self.take_word("AND")
            tests.append(self.disjunction())
        return tests[0] if len(tests) == 1 else lambda one: all(test(one) for test in tests)

    def disjunction(self) -> Test:
        tests = [self.term()]
        while self.take_word("OR"):
            tests.append(self.term())
        return tests[0] if len(tests) == 1 else lambda one: any(test(one) for test in tests)

    def term(self) -> Test:
        if self.take_word("NOT"):
            denied = self.term()
            return lambda one: not denied(one)
        if self.take("("):
            test = self.conjunction()
            if not self.take(")"):
                raise self.error()
            return test
        return self.restriction()

    def restriction(self) -> Test:
        path = self.path()
        self.skip_blank()
        found = _OPERATOR.match(self.text, self.at)
        if found is None:
            return self.meaning(Leaf(path=path))
        self.at = found.end()
        return self.meaning(Leaf(path=path, operator=found.group(), value=self.value()))

    def path(self) -> tuple[str, ...]:
        self.skip_blank()
        found = _PATH.match(self.text, self.at)
        if found is None or _WORD.match(self.text, self.at):
            raise self.error()
        self.at = found.end()
        return tuple(_unquoted(part) for part in re.findall(_PART, found.group(), re.DOTALL))

    def value(self) -> str:
        self.skip_blank()
        found = _VALUE.match(self.text, self.at)
        if found is None:
            raise self.error()
        self.at = found.end()
        return _unquoted(found.group())

    def take_word(self, word: str) -> bool:
        self.skip_blank()
        found = _WORD.match(self.text, self.at)
        return found is not None and found.group(1) == word and self.take(word)

    def take(self, mark: str) -> bool:
        self.skip_blank()
        if not self.text.startswith(mark, self.at):
            return False
        self.at += len(mark)
        return True

    def skip_blank(self) -> None:
        found = _BLANK.match(self.text, self.at)
        self.at = found.end() if found else self.at

    def error(self) -> FilterError:
        self.skip_blank()
        token = self.text[self.at : self.at + 20]
        if not token:
            return FilterError("unexpected end of filter")
        return FilterError(f"syntax error at character {self.at + 1}, token '{token}'")


def _unquoted(part: str) -> str:
    if part[:1] not in ('"', "'"):
        return part
    return re.sub(r"\\([\"'\\])", r"\1", part[1:-1])


def is_like(text: str, wanted: str) -> bool:
    """Whether ``text`` is ``wanted``, in which each ``*`` stands for anything."""
    return re.fullmatch(".*".join(map(re.escape, wanted.split("*"))), text, re.DOTALL) is not None
