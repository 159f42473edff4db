"""Which files stay behind: git's ignore rules, and the names of files that hold credentials.

Read as ``gitignore(5)`` says, and compared with ``git check-ignore`` in the tests: rules of the repository's
top and of ``.git/info/exclude`` count in every folder below, a later rule wins, and nothing comes back from a
folder that stays behind as a whole.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator

import attrs

_TOKEN = re.compile(
    r"(?P<above>(?:(?<=^)|(?<=/))\*\*/)|(?P<all>(?<=/)\*\*$|^\*\*$)|(?P<stars>\*+)|(?P<one>\?)"
    r"|(?P<set>\[(?:[!^]|(?![!^]))(?:\]|\[:\w+:\]|\\.|[^\]\\])(?:\[:\w+:\]|\\.|[^\]\\])*\])"
    r"|(?P<broken>\[|\\$)|\\?(?P<letter>.)",
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
    parts: list[str] = []
    star = above = None
    for token in _TOKEN.finditer(glob):
        kind = token.lastgroup or ""
        if kind == "broken":
            return None
        if kind == "stars":
            star = _settled(parts, star, "[^/]*?", token.start())
        elif kind == "above":
            above = _settled(parts, above, "(?:.*?/)??", token.start())
        if kind in ("above", "all") or token["letter"] == "/":
            star = None
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


def _settled(parts: list[str], before: int | None, lazily: str, number: int) -> int:
    """Where the next wildcard stands; the one before takes no more than it must, and never anew."""
    if before is not None:
        inner = "".join(parts[before + 1 :])
        parts[before:] = [f"(?=(?P<g{number}>{lazily}{inner}))(?P=g{number})"] if inner else []
    return len(parts)


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


GIT_FILE, OWN_FILE = ".gitignore", ".gputrainignore"
"""Read in every folder. IgnoreRules of ours are stronger than git's, and alone take back what is `SECRET`."""

ALWAYS = (
    ".git",
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
SECRET = (
    ".env",
    ".env.*",
    "!.env.example",
    "!.env.sample",
    "!.env.template",
    ".envrc",
    ".netrc",
    "_netrc",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".s3cfg",
    ".boto",
    ".htpasswd",
    ".vault-token",
    ".git-credentials",
    ".aws/",
    ".azure/",
    ".docker/",
    ".gnupg/",
    ".kube/",
    ".ssh/",
    "**/.config/gcloud/",
    "**/.config/gh/",
    ".terraform/",
    "*.tfstate",
    "*.tfstate.*",
    "*.tfvars",
    "kaggle.json",
    "application_default_credentials.json",
    "client_secret*.json",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ecdsa_sk",
    "id_ed25519",
    "id_ed25519_sk",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    "*.ppk",
    ".*_history",
)
"""What holds credentials by its name."""


@attrs.frozen(kw_only=True)
class IgnoreRule:
    """One line of an ignore file: what it matches below the folder that holds the file."""

    base: str
    """That folder from the top, as ``""`` or ``"folder/"``."""
    pattern: re.Pattern[str]
    takes_back: bool
    only_folders: bool
    told_by: str = ""
    """Where it stands, and its words: ``.gitignore: data/``."""

    def matches(self, path: str, is_folder: bool) -> bool:
        """Whether the rule speaks of ``path``: relative to the top, with ``/``, its bytes as letters."""
        if self.only_folders and not is_folder:
            return False
        inside = path[len(self.base) :] if path.startswith(self.base) else None
        return inside is not None and self.pattern.fullmatch(inside) is not None


def read_rules(lines: Iterable[str], base: str = "", *, name: str = "") -> Iterator[IgnoreRule]:
    """The rules of an ignore file ``name`` that lies in ``base`` (``""`` or ``"folder/"``).

    Lines are read as git reads them, every byte a letter.

    >>> rules = IgnoreRules(git=tuple(read_rules(["*.txt", "!keep.txt"], name=".gitignore")))
    >>> rules.holding("logs/run.txt", is_folder=False).told_by
    '.gitignore: *.txt'
    >>> rules.holding("keep.txt", is_folder=False)
    """
    for raw in lines:
        line = _without_blanks(raw.removeprefix("\xef\xbb\xbf").rstrip("\r\n"))
        if not line or line.startswith("#"):
            continue
        takes_back = line.startswith("!")
        glob = line[1:] if takes_back else line
        only_folders = glob.endswith("/")
        glob = glob[:-1] if only_folders else glob
        text = pattern_of(glob.removeprefix("/"))
        if not glob or text is None:
            continue
        pattern = re.compile(text if "/" in glob else f"(?:.*/)?{text}", re.DOTALL)
        yield IgnoreRule(
            base=base, pattern=pattern, takes_back=takes_back, only_folders=only_folders,
            told_by=f"{base}{name}: {line}".encode("latin-1").decode("utf-8", "replace"),
        )  # fmt: skip


def _without_blanks(line: str) -> str:
    """Without the spaces at its end, but for one that a backslash keeps."""
    bare = line.rstrip(" ")
    slashes = len(bare) - len(bare.rstrip("\\"))
    return f"{bare} " if slashes % 2 and len(bare) < len(line) else bare


def _as_git_reads(text: str) -> str:
    """Every byte a letter: to git, ``?`` is one byte."""
    return os.fsencode(text).decode("latin-1")


NEVER = "never travels"
_ALWAYS = tuple(read_rules(ALWAYS, name=NEVER))
_SECRET = tuple(read_rules(SECRET, name="may hold credentials"))


@attrs.frozen(kw_only=True)
class IgnoreRules:
    """The rules that hold in a folder: git's of the folders above, and ours."""

    git: tuple[IgnoreRule, ...] = ()
    own: tuple[IgnoreRule, ...] = ()

    def holding(self, path: str, *, is_folder: bool) -> IgnoreRule | None:
        """The rule by which a path stays behind; None where it travels.

        Of the strongest kind that speaks of it (ours, `SECRET`, git's, `ALWAYS`) the last one counts.
        """
        name = _as_git_reads(path)
        for rules in (self.own, _SECRET, self.git, _ALWAYS):
            last = next((rule for rule in reversed(rules) if rule.matches(name, is_folder)), None)
            if last is not None and not (last.takes_back and rules is _SECRET):
                return None if last.takes_back else last
        return None

    def takes_back(self, path: str) -> bool:
        """Whether a line of ours asks for this very file, whatever is in it."""
        name = _as_git_reads(path)
        return any(rule.takes_back and rule.matches(name, False) for rule in self.own)

    def within(self, folder: str, base: str) -> IgnoreRules:
        """The rules that hold in ``folder``, which lies at ``base`` from the top: those of its files too."""
        return IgnoreRules(
            git=(*self.git, *_rules_of(folder, GIT_FILE, base)),
            own=(*self.own, *_rules_of(folder, OWN_FILE, base)),
        )


def above(root: str) -> tuple[str, IgnoreRules]:
    """Where a folder lies in its repository (``""`` or ``"a/b/"``), and the rules from above that hold in it.

    Where no repository is around it, that is its top, and nothing holds.
    """
    top = root
    while not os.path.exists(os.path.join(top, ".git")):
        top, below = os.path.dirname(top), top
        if top == below:
            return "", IgnoreRules()
    rules = IgnoreRules(git=tuple(_rules_of(_info_of(os.path.join(top, ".git")), "exclude", "")))
    inside = "" if top == root else os.path.relpath(root, top).replace(os.sep, "/") + "/"
    base = ""
    for part in inside.split("/")[:-1]:
        rules = rules.within(os.path.join(top, base), base)
        base += f"{part}/"
    return inside, rules


def _info_of(git: str) -> str:
    """The folder of ``exclude``; a worktree's or a submodule's ``.git`` is a file that names a folder."""
    if os.path.isfile(git):
        git = os.path.join(os.path.dirname(git), _line_of(git).removeprefix("gitdir: "))
        git = os.path.join(git, _line_of(os.path.join(git, "commondir")))
    return os.path.join(git, "info")


def _line_of(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.readline().rstrip("\n")
    except OSError:
        return ""


def _rules_of(folder: str, name: str, base: str) -> Iterator[IgnoreRule]:
    full = os.path.join(folder, name)
    if os.path.isfile(full):
        with open(full, encoding="latin-1", newline="\n") as file:
            yield from read_rules(file, _as_git_reads(base), name=name)
