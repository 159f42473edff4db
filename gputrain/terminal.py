"""Text that others wrote, as it may be shown: what commands a terminal is shown as text, colour may stay.

What a rank prints, a bucket holds or a service answers can move the cursor, set the clipboard and the title,
hide a link or turn the direction of a line. Every text that is shown passes here once.
"""

from __future__ import annotations

import html
import re

_COLOUR = r"\x1b\[[0-9;:]{0,40}m"
_RESET = "\x1b[0m"
_COMMANDS = re.compile(
    rf"(?P<colour>{_COLOUR})|[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but tab and end of line, C1
    r"\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # unseen, or turns a line
    r"\U000e0000-\U000e007f\ud800-\udfff]"  # tags; halves of letters, which no terminal can be sent
)


def safe(text: str, *, colour: bool = False) -> str:
    """The text as a person may be shown it: on a screen, in a page, in an error.

    Args:
        text: anybody's.
        colour: keep the colours of letters, and end them with the text; otherwise they are left out.

    >>> safe("\\x1b[31mloss\\x1b[0m \\x1b]52;c;aGk=\\x07")
    'loss \\\\x1b]52;c;aGk=\\\\x07'
    """
    if text.isprintable():
        return text
    shown = _COMMANDS.sub(lambda one: (one[0] if colour else "") if one["colour"] else _named(one[0]), text)
    return f"{shown}{_RESET}" if colour and "\x1b[" in shown else shown


def safe_html(text: str) -> str:
    """The same text as part of a page, of an attribute, or of a picture, between double quotes or none.

    >>> safe_html('<b title="x">\\x07')
    '&lt;b title=&quot;x&quot;&gt;\\\\x07'
    """
    return html.escape(safe(text))


def safe_json(document: str) -> str:
    """A JSON text that says the same and commands no terminal: JSON can name every letter."""
    return document if document.isprintable() else _COMMANDS.sub(lambda one: _escaped(one[0]), document)


def _named(letter: str) -> str:
    return letter.encode("unicode_escape").decode()


def _escaped(letters: str) -> str:
    pairs = letters.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{pairs[n]:02x}{pairs[n + 1]:02x}" for n in range(0, len(pairs), 2))
