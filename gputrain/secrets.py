"""Texts that look like credentials: found so that they can be kept out of specs, labels, reprs and errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

FORMS = {
    "a private key": r"-----BEGIN [A-Z ]*PRIVATE KEY[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    "a Google access token": r"\bya29\.[\w.-]{20,}",
    "a Google refresh token": r"\b1//[\w-]{20,}",
    "a Google client secret": r"\bGOCSPX-[\w-]{20,}",
    "a Google API key": r"\bAIza[\w-]{35}\b",
    "a signed URL of Google's": r"X-Goog-Signature=[0-9a-f]{32,}",
    "a GitHub token": r"\bgh[pousr]_[A-Za-z0-9]{36,}|\bgithub_pat_\w{22,}",
    "a GitLab token": r"\bglpat-[\w-]{20,}",
    "a Hugging Face token": r"\bhf_[A-Za-z0-9]{30,}",
    "a key of OpenAI's or Anthropic's form": r"\bsk-(?=[\w-]{0,200}[A-Z\d])[\w-]{20,}|\bsk-[a-z]{20,}",
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
"""Name to form, for credentials that are told by their own letters."""

_WHOLE = {"a private key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]{0,400}?[A-Za-z0-9+/]{40}"}
"""Code that speaks of keys holds the head of one, as this does."""
_FORMS = re.compile("|".join(FORMS.values()))
_SPOKEN = re.compile(
    r"(\bBearer\s+|\b(?:access_token|refresh_token|id_token|client_secret|assertion|upload_id"
    r"|aws_secret_access_key)\s?=\s?)[^\s&'\"]+",
    re.I,
)
"""In a header or a URL it is the word before it that tells, whatever the form."""
_LOGIN = re.compile(
    r"((?:(?<=\bhttp)|(?<=\bhttps))://)(?!git@)[^\s/?#@'\"]+@|((?<=[\w+])://[^\s/?#:@'\"]*:)[^\s/?#@'\"]+@",
    re.I,
)
"""A user or a password in a URL; ``ssh://git@host`` has none. It begins at the ``://``, of which no text has
so many that each looks through the rest."""

_NAMES = re.compile(
    r"(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|(?<=.)(?<!OLD)PWD|CREDENTIALS?|(?:^|_)DSN"
    r"|(?:_|API|ACCESS|PRIVATE)KEY)S?$",
    re.I,
)
_COUNTED = re.compile(r"(?:TOKENS?|KEYS?)$", re.I)
"""Of ``MAX_TOKENS=512`` a number is what it seems."""
_HEADERS = frozenset({"authorization", "assertion", "cookie", "set-cookie"})

HIDDEN = "***"
DEEPEST = 40
"""Levels of a document that are kept: an answer of Google's has fewer than ten."""
LONGEST = 50_000
"""Letters of each text in a document that are kept."""


def looks_secret(value: str, *, name: str = "") -> bool:
    """True where the value has the form of a credential, or the variable's name says that it is one.

    >>> looks_secret("hunter2", name="WANDB_API_KEY")
    True
    >>> looks_secret("3e-4", name="LR")
    False
    """
    if _FORMS.search(value) or _LOGIN.search(value):
        return True
    is_count = bool(_COUNTED.search(name)) and value.isdecimal() and len(value) < 16
    return bool(value and _NAMES.search(name)) and not is_count


def without_secrets(env: Mapping[str, str]) -> dict[str, str]:
    """Variables, with the values hidden that look like secrets.

    >>> without_secrets({"HF_TOKEN": "abc", "LR": "3e-4"})
    {'HF_TOKEN': '***', 'LR': '3e-4'}
    """
    return {name: HIDDEN if looks_secret(value, name=name) else value for name, value in env.items()}


def form_of(text: str) -> str:
    """What kind of credential a text holds, in words; empty where it holds none of a known form.

    >>> form_of("npm_" + "a1B2" * 9)
    'an npm token'
    """
    if not _FORMS.search(text):
        return ""
    found = (name for name, form in FORMS.items() if re.search(_WHOLE.get(name, form), text))
    return next(found, "")


def redact(text: str) -> str:
    """The text with everything that has the form of a credential replaced by ``***``.

    >>> redact("GET /?access_token=abc&alt=json with Authorization: Bearer abc")
    'GET /?access_token=***&alt=json with Authorization: Bearer ***'
    """
    plain = _LOGIN.sub(lambda one: f"{one[1] or one[2]}{HIDDEN}@", _FORMS.sub(HIDDEN, text))
    return _SPOKEN.sub(lambda one: f"{one[1]}{HIDDEN}", plain)


def redacted(document: Any, *, deepest: int = DEEPEST) -> Any:
    """A JSON document with every credential in it replaced by ``***``, and cut where it goes on and on.

    >>> redacted({"error": "no", "access_token": "abc", "more": [{"private_key": "abc"}]})
    {'error': 'no', 'access_token': '***', 'more': [{'private_key': '***'}]}
    """
    if isinstance(document, str):
        return redact(document) if len(document) <= LONGEST else f"{redact(document[:LONGEST])}..."
    if isinstance(document, Mapping):
        return {
            redact(str(key)): HIDDEN if _is_secret(key, value) else redacted(value, deepest=deepest - 1)
            for key, value in (document.items() if deepest else ())
        }
    if isinstance(document, (list, tuple)):
        return [redacted(one, deepest=deepest - 1) for one in (document if deepest else ())]
    return document


def _is_secret(key: object, value: object) -> bool:
    named = str(key)
    return isinstance(value, str) and (named.lower() in _HEADERS or bool(_NAMES.search(named)))
