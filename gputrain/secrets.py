"""Texts that look like credentials: found so that they can be kept out of specs, labels, reprs and errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_FORMS = re.compile(
    r"""-----BEGIN\ [A-Z ]*PRIVATE\ KEY[\s\S]*?(?:-----END\ [A-Z ]*PRIVATE\ KEY-----|\Z)   # PEM
      | \bya29\.[\w.-]{20,}                     # Google access token
      | \b1//[\w-]{20,}                         # Google refresh token
      | \bGOCSPX-[\w-]{20,}                     # Google client secret
      | \bAIza[\w-]{35}\b                       # Google API key
      | \bgh[pousr]_[A-Za-z0-9]{36,}            # GitHub
      | \bhf_[A-Za-z0-9]{30,}                   # Hugging Face
      | \bsk-[A-Za-z0-9_-]{20,}                 # OpenAI, Anthropic
      | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b           # AWS
      | \bxox[abprs]-[\w-]{10,}                 # Slack
      | \beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]*  # JWT
      | X-Goog-Signature=[0-9a-f]{32,}          # signed URL
    """,
    re.VERBOSE,
)
_SPOKEN = re.compile(
    r"(\bBearer\s+|\b(?:access_token|refresh_token|id_token|client_secret|assertion|upload_id)=)[^\s&'\"]+",
    re.I,
)
"""In a header or a URL it is the word before it that tells, whatever the form."""

_NAMES = re.compile(
    r"(?:^|_)(?:TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|(?:API|ACCESS|PRIVATE|SECRET)_?KEY)S?$", re.I
)
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
    return bool(_FORMS.search(value)) or bool(value and _NAMES.search(name))


def redact(text: str) -> str:
    """The text with everything that has the form of a credential replaced by ``***``.

    >>> redact("GET /?access_token=abc&alt=json with Authorization: Bearer abc")
    'GET /?access_token=***&alt=json with Authorization: Bearer ***'
    """
    return _SPOKEN.sub(rf"\g<1>{HIDDEN}", _FORMS.sub(HIDDEN, text))


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
