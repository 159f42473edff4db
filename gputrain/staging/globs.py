"""Git's globs as regular expressions: ``*``, ``?``, ``[...]`` and ``**``, as ``gitignore(5)`` reads them."""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"(?P<above>(?:(?<=^)|(?<=/))\*\*/)|(?P<all>(?<=/)\*\*$|^\*\*$)|(?P<stars>\*+)|(?P<one>\?)"
    r"|(?P<set>\[[!^]?\]?(?:\[:\w+:\]|\\.|[^\]\\])*\])|(?P<broken>\[|\\$)|\\?(?P<letter>.)",
    re.DOTALL,
)
_CLASSES = {
    "alnum": "a-zA-Z0-9", "alpha": "a-zA-Z", "blank": r" \t", "cntrl": r"\x00-\x1f\x7f", "digit": "0-9",
    "graph": "!-~", "lower": "a-z", "print": " -~", "punct": r"!-/:-@\[-`{-~", "space": r"\s", "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}  # fmt: skip


def pattern_of(glob: str) -> str | None:
    """A regular expression for a path; None for what git takes for a mistake, which matches nothing.

    >>> import re
    >>> bool(re.fullmatch(pattern_of("logs/**/*.txt"), "logs/a/b/run.txt"))
    True
    """
    parts = []
    for token in _TOKEN.finditer(glob):
        kind = token.lastgroup or ""
        if kind == "broken":
            return None
        if kind == "letter":
            parts.append(re.escape(token["letter"]))
        elif kind == "set":
            text = _as_set(token["set"][1:-1])
            if text is None:
                return None
            parts.append(text)
        else:
            parts.append({"above": "(?:.*/)?", "all": ".+", "stars": "[^/]*", "one": "[^/]"}[kind])
    return "".join(parts)


_MEMBER = re.compile(r"\[:(?P<kind>\w+):\]|\\?(?P<low>.)(?:-\\?(?P<high>[^\]]))?", re.DOTALL)


def _as_set(inner: str) -> str | None:
    """What stands between brackets; a range that runs backwards is its first letter, as git has it."""
    is_negated = inner[0] in "!^"
    members = []
    for one in _MEMBER.finditer(inner, 1 if is_negated else 0):
        kind, low, high = one["kind"], one["low"], one["high"]
        if kind:
            if kind not in _CLASSES:
                return None
            members.append(_CLASSES[kind])
        else:
            members.append(re.escape(low) if high is None or high < low else f"{_plain(low)}-{_plain(high)}")
    return f"(?!/)[{'^' if is_negated else ''}{''.join(members)}]"


def _plain(letter: str) -> str:
    return f"\\x{ord(letter):02x}"
