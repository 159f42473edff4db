"""The filter language that Cloud Logging and Vertex AI lists share: text in, a tree out.

It is Google's AIP-160 grammar as cloud.google.com/logging/docs/view/logging-query-language describes it
(read 2026-11-20): `NOT` binds tightest, then `OR`, then `AND`; two terms side by side are an `AND`;
`--` starts a comment; a field path may hold quoted parts; `field=(a OR b)` spreads over its values.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

_BLANK = re.compile(r"(?:\s|--[^\n]*)+")
_QUOTED = r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\''
_PART = rf"(?:{_QUOTED}|[^\s()\"'=<>!:,.]+)"
_PATH = re.compile(rf"{_PART}(?:\.{_PART})*", re.DOTALL)
_VALUE = re.compile(rf"{_QUOTED}|[^\s()\"',=<>!:][^\s()\"',]*", re.DOTALL)
_OPERATOR = re.compile(r"!=|=~|!~|>=|<=|=|>|<|:")
_WORD = re.compile(r"(AND|OR|NOT)(?=[\s()\"']|$)")
_DEPTH = 50  # deeper nesting than this is refused, not recursed into


class FilterError(ValueError):
    """The filter cannot be read; the text says where."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """`path operator value`; `quoted` tells `"*"` from `*`."""

    path: tuple[str, ...]
    operator: str
    value: str
    quoted: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    """A bare word or quoted string that is looked for everywhere."""

    value: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """`name(argument)`, as in `log_id("stderr")`."""

    name: str
    argument: str


Leaf = Comparison | Text | Call


@dataclass(frozen=True, kw_only=True, slots=True)
class Not:
    node: Node


@dataclass(frozen=True, kw_only=True, slots=True)
class Every:
    nodes: tuple[Node, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Some:
    nodes: tuple[Node, ...]


Node = Leaf | Not | Every | Some


def parse(text: str) -> Node:
    """The tree of a filter; an empty filter is the `Every` of nothing, which holds always.

    Raises:
        FilterError: where the text stops being a filter.
    """
    reader = _Reader(text)
    if reader.at_end():
        return Every(nodes=())
    node = reader.conjunction(0)
    if not reader.at_end():
        raise reader.error()
    return node


def holds(node: Node, test: Callable[[Leaf], bool]) -> bool:
    """Whether the filter holds, given what each of its leaves answers."""
    if isinstance(node, Every):
        return all(holds(part, test) for part in node.nodes)
    if isinstance(node, Some):
        return any(holds(part, test) for part in node.nodes)
    if isinstance(node, Not):
        return not holds(node.node, test)
    return test(node)


def leaves(node: Node) -> tuple[Leaf, ...]:
    """Every leaf of the tree, left to right."""
    if isinstance(node, (Every, Some)):
        return tuple(leaf for part in node.nodes for leaf in leaves(part))
    if isinstance(node, Not):
        return leaves(node.node)
    return (node,)


class _Reader:
    """Recursive descent over the text; `at` is how far it has been read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def at_end(self) -> bool:
        self.skip_blank()
        return self.at >= len(self.text)

    def conjunction(self, depth: int) -> Node:
        nodes = [self.disjunction(depth)]
        while not self.at_end() and self.text[self.at] != ")":
            self.take_word("AND")
            nodes.append(self.disjunction(depth))
        return nodes[0] if len(nodes) == 1 else Every(nodes=tuple(nodes))

    def disjunction(self, depth: int) -> Node:
        nodes = [self.term(depth)]
        while self.take_word("OR"):
            nodes.append(self.term(depth))
        return nodes[0] if len(nodes) == 1 else Some(nodes=tuple(nodes))

    def term(self, depth: int) -> Node:
        if depth > _DEPTH:
            raise FilterError("filter is nested too deeply")
        if self.take_word("NOT") or self.take_minus():
            return Not(node=self.term(depth + 1))
        if self.take("("):
            node = self.conjunction(depth + 1)
            self.expect(")")
            return node
        return self.restriction(depth)

    def restriction(self, depth: int) -> Node:
        path = self.path()
        if len(path) == 1 and self.text.startswith("(", self.at):
            return self.call(path[0])
        self.skip_blank()
        found = _OPERATOR.match(self.text, self.at)
        if found is None:
            return Text(value=".".join(path))
        self.at = found.end()
        return self.operand(path, found.group(), depth)

    def operand(self, path: tuple[str, ...], operator: str, depth: int) -> Node:
        if self.take("("):
            node = self.conjunction(depth + 1)
            self.expect(")")
            return _spread(node, path, operator)
        value, quoted = self.value()
        return Comparison(path=path, operator=operator, value=value, quoted=quoted)

    def call(self, name: str) -> Call:
        self.expect("(")
        argument, _ = self.value()
        self.expect(")")
        return Call(name=name, argument=argument)

    def path(self) -> tuple[str, ...]:
        self.skip_blank()
        found = _PATH.match(self.text, self.at)
        if found is None or _WORD.match(self.text, self.at):
            raise self.error()
        self.at = found.end()
        return tuple(_unquoted(part) for part in re.findall(_PART, found.group(), re.DOTALL))

    def value(self) -> tuple[str, bool]:
        self.skip_blank()
        found = _VALUE.match(self.text, self.at)
        if found is None:
            raise self.error()
        self.at = found.end()
        return _unquoted(found.group()), found.group()[0] in "\"'"

    def take_word(self, word: str) -> bool:
        self.skip_blank()
        found = _WORD.match(self.text, self.at)
        if found is None or found.group(1) != word:
            return False
        self.at = found.end()
        return True

    def take_minus(self) -> bool:
        follows = self.text[self.at + 1 : self.at + 2]
        return bool(follows.strip()) and self.take("-")

    def take(self, mark: str) -> bool:
        self.skip_blank()
        if not self.text.startswith(mark, self.at):
            return False
        self.at += len(mark)
        return True

    def expect(self, mark: str) -> None:
        if not self.take(mark):
            raise self.error()

    def skip_blank(self) -> None:
        found = _BLANK.match(self.text, self.at)
        self.at = found.end() if found else self.at

    def error(self) -> FilterError:
        self.skip_blank()
        read = self.text[: self.at]
        line, column = read.count("\n") + 1, self.at - (read.rfind("\n") + 1) + 1
        token = self.text[self.at : self.at + 20]
        if not token:
            return FilterError(f"unexpected end of filter at line {line}, column {column}")
        return FilterError(f"syntax error at line {line}, column {column}, token '{token}'")


def _spread(node: Node, path: tuple[str, ...], operator: str) -> Node:
    if isinstance(node, Text):
        return Comparison(path=path, operator=operator, value=node.value, quoted=True)
    if isinstance(node, Every):
        return Every(nodes=tuple(_spread(part, path, operator) for part in node.nodes))
    if isinstance(node, Some):
        return Some(nodes=tuple(_spread(part, path, operator) for part in node.nodes))
    if isinstance(node, Not):
        return Not(node=_spread(node.node, path, operator))
    raise FilterError("a value list may hold only values")


def _unquoted(part: str) -> str:
    if part[:1] not in ('"', "'"):
        return part
    return re.sub(r"\\(.)", r"\1", part[1:-1], flags=re.DOTALL)
