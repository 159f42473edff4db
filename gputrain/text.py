"""Text that others wrote, made safe to show: control characters escaped, credentials hidden.

A rank's output, an object's name or a service's answer can move the cursor, set the clipboard, hide a link or
turn the direction of a line. Text from outside passes `sanitize` once before it is shown.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from typing import Any

_COLOR = r"\x1b\[[0-9;:]{0,40}m"
_CONTROL = re.compile(
    rf"(?P<color>{_COLOR})|[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 except tab and newline, C1
    r"\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # invisible, bidirectional
    r"\U000e0000-\U000e007f\ud800-\udfff]"  # tags; lone surrogates
)


def sanitize(text: str, *, colour: bool = False) -> str:
    """The text with control and bidirectional characters escaped.

    Args:
        text: text from anywhere.
        colour: keep ANSI colours and reset them at the end; otherwise they are removed.

    >>> sanitize("\\x1b[31mloss\\x1b[0m \\x1b]52;c;aGk=\\x07")
    'loss \\\\x1b]52;c;aGk=\\\\x07'
    """
    if text.isprintable():
        return text

    def escape(found: re.Match[str]) -> str:
        if found["color"]:
            return found[0] if colour else ""
        return found[0].encode("unicode_escape").decode()

    shown = _CONTROL.sub(escape, text)
    return f"{shown}\x1b[0m" if colour and "\x1b[" in shown else shown


def escape_html(text: str) -> str:
    """The text for an HTML page, an SVG picture or a quoted attribute."""
    return html.escape(sanitize(text))


SECRET_FORMS = {
    "a private key": r"-----BEGIN [A-Z ]*PRIVATE KEY[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    "a Google access token": r"\bya29\.[\w.-]{20,}",
    "a Google refresh token": r"\b1//[\w-]{20,}",
    "a Google client secret": r"\bGOCSPX-[\w-]{20,}",
    "a Google API key": r"\bAIza[\w-]{35}\b",
    "a signed Google URL": r"X-Goog-Signature=[0-9a-f]{32,}",
    "a GitHub token": r"\bgh[pousr]_[A-Za-z0-9]{36,}|\bgithub_pat_\w{22,}",
    "a GitLab token": r"\bglpat-[\w-]{20,}",
    "a Hugging Face token": r"\bhf_[A-Za-z0-9]{30,}",
    "an OpenAI or Anthropic key": r"\bsk-(?=[\w-]{0,200}[A-Z\d])[\w-]{20,}|\bsk-[a-z]{20,}",
    "an NVIDIA key": r"\bnvapi-[\w-]{20,}",
    "an AWS key": r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    "an Azure key": r"\bAccountKey=[\w+/=]{40,}",
    "a Slack token": r"\bxox[abprs]-[\w-]{10,}|\bhooks\.slack\.com/services/T\w+/B\w+/\w+",
    "a Stripe key": r"\b[sr]k_live_[0-9A-Za-z]{20,}",
    "an npm token": r"\bnpm_[A-Za-z0-9]{36}\b",
    "a PyPI token": r"\bpypi-AgE[\w-]{20,}",
    "a Docker token": r"\bdckr_pat_[\w-]{20,}",
    "a Replicate token": r"\br8_[A-Za-z0-9]{30,}",
    "a JSON Web Token": r"\beyJ[\w-]{10,4096}\.eyJ[\w-]{10,}\.[\w-]*",
    "an age key": r"\bAGE-SECRET-KEY-1[A-Z0-9]{50,}",
}
"""Credentials that can be recognised by their form alone."""
HIDDEN = "***"
_WHOLE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]{0,400}?[A-Za-z0-9+/]{40}")
"""Code that handles keys contains the first line of one, as this file does; a real key has a body."""
_FORMS = re.compile("|".join(SECRET_FORMS.values()))
_AFTER_A_WORD = re.compile(
    r"(\bBearer\s+|\b(?:access_token|refresh_token|id_token|client_secret|assertion|upload_id"
    r"|aws_secret_access_key)\s?=\s?)[^\s&'\"]+",
    re.I,
)
_LOGIN = re.compile(
    r"((?:(?<=\bhttp)|(?<=\bhttps))://)(?!git@)[^\s/?#@'\"]+@|((?<=[\w+])://[^\s/?#:@'\"]*:)[^\s/?#@'\"]+@",
    re.I,
)
"""A user or a password in a URL; ``ssh://git@host`` has none. Anchored at ``://`` so that it stays linear."""
_SECRET_NAME = re.compile(
    r"(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|(?<=.)(?<!OLD)PWD|CREDENTIALS?|(?:^|[_-])DSN"
    r"|(?:[_-]|API|ACCESS|PRIVATE)KEY)S?$",
    re.I,
)
_COUNTED = re.compile(r"(?:TOKENS?|KEYS?)$", re.I)
"""``MAX_TOKENS=512`` is a number."""
_HEADERS = frozenset({"authorization", "assertion", "cookie", "set-cookie"})


def looks_secret(value: str, *, name: str = "") -> bool:
    """Whether the value has the form of a credential, or its variable or flag is named like one."""
    if _FORMS.search(value) or _LOGIN.search(value):
        return True
    is_count = bool(_COUNTED.search(name)) and value.isdecimal() and len(value) < 16
    return bool(value and _SECRET_NAME.search(name)) and not is_count


def hide_secrets(env: Mapping[str, str]) -> dict[str, str]:
    """Variables with secret values hidden."""
    return {name: HIDDEN if looks_secret(value, name=name) else value for name, value in env.items()}


def hide_secret_args(args: Sequence[str]) -> tuple[str, ...]:
    """Arguments of a program with secret values hidden.

    >>> hide_secret_args(["--token", "abc", "--wandb-api-key=abc", "--lr", "1"])
    ('--token', '***', '--wandb-api-key=***', '--lr', '1')
    """
    shown, flag = [], ""
    for one in args:
        name, equals, value = one.partition("=")
        if not one.startswith("-"):
            shown.append(HIDDEN if flag and _looks_secret_arg(one, flag) else redact(one))
            flag = ""
        elif equals and _looks_secret_arg(value, name):
            shown.append(f"{name}={HIDDEN}")
            flag = ""
        else:
            shown.append(redact(one))
            flag = one
    return tuple(shown)


def _looks_secret_arg(value: str, flag: str) -> bool:
    """``--pad-token <pad>`` and ``--use-auth-token true`` hold no secret, nor does ``--token $TOKEN``."""
    is_plain = re.fullmatch(r"<.*>|\[.*\]|\$.*|true|false|none|yes|no", value, re.IGNORECASE)
    return not is_plain and looks_secret(value, name=flag.lstrip("-"))


def secret_type(text: str) -> str:
    """What kind of credential the text contains; empty for none."""
    if not _FORMS.search(text):
        return ""
    for kind, form in SECRET_FORMS.items():
        if (_WHOLE_KEY if kind == "a private key" else re.compile(form)).search(text):
            return kind
    return ""


def redact(text: str) -> str:
    """The text with credentials replaced by ``***``."""
    text = _LOGIN.sub(lambda found: f"{found[1] or found[2]}{HIDDEN}@", _FORMS.sub(HIDDEN, text))
    return _AFTER_A_WORD.sub(lambda found: f"{found[1]}{HIDDEN}", text)


def redacted(document: Any) -> Any:
    """A JSON document with credentials replaced by ``***``."""
    match document:
        case str():
            return redact(document)
        case Mapping():
            return {
                redact(key): HIDDEN
                if isinstance(value, str) and (key.lower() in _HEADERS or _SECRET_NAME.search(key))
                else redacted(value)
                for key, value in ((str(key), value) for key, value in document.items())
            }
        case list() | tuple():
            return [redacted(one) for one in document]
    return document
