"""Which files stay behind: a subset of git's ignore rules, and what never travels."""

from __future__ import annotations

import re
from collections.abc import Iterable

import attrs

IGNORE_FILES = (".gitignore", ".gputrainignore")
"""Read in this order in every folder; a later rule wins: ``.gputrainignore`` can take back (``!data/``)."""

ALWAYS = (
    ".git/",
    ".hg/",
    ".svn/",
    ".gputrain/",
    "__pycache__/",
    "*.pyc",
    ".ipynb_checkpoints/",
    ".mypy_cache/",
    ".pytest_cache/",
    ".ruff_cache/",
    ".venv",
    ".DS_Store",
)


@attrs.frozen(kw_only=True)
class IgnoreRule:
    """One line of an ignore file: what it matches below the folder that holds the file."""

    base: str
    pattern: re.Pattern[str]
    takes_back: bool
    only_folders: bool

    def matches(self, path: str, is_folder: bool) -> bool:
        """Whether the rule speaks of ``path``, which is relative to the root and uses ``/``."""
        if self.only_folders and not is_folder:
            return False
        inside = path[len(self.base) :] if path.startswith(self.base) else None
        return inside is not None and self.pattern.fullmatch(inside) is not None


def read_rules(lines: Iterable[str], base: str = "") -> tuple[IgnoreRule, ...]:
    """The rules of an ignore file that lies in ``base`` (``""`` or ``"folder/"``).

    Understood as git does: ``#``, ``!``, ``*``, ``?``, ``[...]``, ``**`` and ``/``.

    >>> is_ignored("logs/run.txt", False, read_rules(["*.txt", "!keep.txt"]))
    True
    """
    rules = []
    for raw in lines:
        line = raw.rstrip("\r\n")
        line = line if line.endswith("\\ ") else line.rstrip()
        if not line or line.startswith("#"):
            continue
        takes_back = line.startswith("!")
        line = line[1:] if takes_back else line
        only_folders = line.endswith("/")
        line = line.rstrip("/")
        if not line:
            continue
        anchored = "/" in line
        text = _as_pattern(line.lstrip("/"))
        pattern = re.compile(text if anchored else f"(?:.*/)?{text}", re.DOTALL)
        rules.append(IgnoreRule(base=base, pattern=pattern, takes_back=takes_back, only_folders=only_folders))
    return tuple(rules)


def is_ignored(path: str, is_folder: bool, rules: Iterable[IgnoreRule]) -> bool:
    """What the last rule that speaks of the path says."""
    ignored = False
    for rule in rules:
        if rule.matches(path, is_folder):
            ignored = not rule.takes_back
    return ignored


_TOKEN = re.compile(r"\*\*/|/\*\*$|\*\*|\*|\?|\[!?\]?[^\]]*\]|\\.|.", re.DOTALL)
_WILD = {"**/": "(?:.*/)?", "/**": "/.*", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def _as_pattern(glob: str) -> str:
    parts = []
    for token in _TOKEN.findall(glob):
        if token in _WILD:
            parts.append(_WILD[token])
        elif token.startswith("[") and token.endswith("]") and len(token) > 2:
            inner = token[1:-1].replace("\\", "\\\\")
            negated = inner.startswith(("!", "^"))
            body = (inner[1:] if negated else inner).replace("[", "\\[").replace("]", "\\]")
            parts.append(f"(?!/)[{'^' if negated else ''}{body}]")
        else:
            parts.append(re.escape(token[1:] if token.startswith("\\") and len(token) > 1 else token))
    return "".join(parts)


DEFAULT_RULES = read_rules(ALWAYS)
