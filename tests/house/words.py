"""How many words the pages have, and how many of the old dialect are left in pages, help and messages."""

import ast
import re

import click

from gputrain.cli.commands import gputrain as program
from tests.house.source import ROOT, modules

OLD = re.compile(
    r"\b(?:told|mend(?:s|ed|ing)?|whoever|whatever|nobody|of ours|(?:go|goes|going|went) on|tak(?:e|es|en) up"
    r"|twice is once|gangs?|ladders?|climb(?:s|ed)?|trials?|to be had|bears?|borne|travels?|unless said"
    r"|remed(?:y|ies))\b",
    re.IGNORECASE,
)
PUBLIC = re.compile(r"`[^`\n]*`|\bOptuna\b[^.]*")
"""Code is not prose; Optuna calls its runs trials."""
GENERATED = re.compile(
    r"<!-- (?:from here on|[a-z]+:) written .*?<!-- (?:end of [a-z]+|to here) -->", re.DOTALL
)
"""Tables that are written from the product: their texts count there."""
WRITTEN_WHOLE = ("permissions.md",)


def pages():
    """Path -> text, of what people read; the changelog is history."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return {path.relative_to(ROOT): path.read_text() for path in found if path.name != "changelog.md"}


def by_hand(path, text):
    """What of a page somebody wrote."""
    return "" if path.name in WRITTEN_WHOLE else GENERATED.sub("", text)


def number_of_words():
    """Words of all pages: what has a letter or digit between two spaces."""
    texts = (by_hand(path, text) for path, text in pages().items())
    return sum(bool(re.search(r"\w", word)) for text in texts for word in text.split())


def messages():
    """(place, text) of every text of the product that is no docstring and could be read by a person."""
    for name, (_, tree) in modules().items():
        docs = {
            id(node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }
        for node in ast.walk(tree):
            is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
            if is_text and " " in node.value and id(node) not in docs:
                yield f"{name}:{node.lineno}", node.value


def old_words():
    """(place, word) of the old dialect."""
    found = [
        (f"{path}:{number}", line)
        for path, text in pages().items()
        for number, line in enumerate(text.splitlines(), 1)
    ]
    shown = (*found, *messages(), *helps())
    return [(place, word) for place, text in shown for word in OLD.findall(PUBLIC.sub("", text))]


def helps():
    """(command, text) of the help of every command."""
    for name, command in program.commands.items():
        yield f"gputrain {name} --help", command.get_help(click.Context(command, info_name=name))
    yield "gputrain --help", program.get_help(click.Context(program, info_name="gputrain"))
