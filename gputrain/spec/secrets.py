"""Texts that look like credentials: found so that they can be kept out of specs, labels and reprs."""

from __future__ import annotations

import re

_FORMS = re.compile(
    r"""-----BEGIN\ [A-Z ]*PRIVATE\ KEY          # PEM
      | \bya29\.[\w-]{20,}                      # Google access token
      | \bAIza[\w-]{35}\b                       # Google API key
      | \bgh[pousr]_[A-Za-z0-9]{36,}            # GitHub
      | \bhf_[A-Za-z0-9]{30,}                   # Hugging Face
      | \bsk-[A-Za-z0-9_-]{20,}                 # OpenAI, Anthropic
      | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b           # AWS
      | \bxox[abprs]-[\w-]{10,}                 # Slack
      | \beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.        # JWT
      | X-Goog-Signature=[0-9a-f]{32,}          # signed URL
    """,
    re.VERBOSE,
)
_NAMES = re.compile(
    r"(?:^|_)(?:TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|(?:API|ACCESS|PRIVATE|SECRET)_?KEY)S?$", re.I
)

HIDDEN = "***"


def looks_secret(value: str, *, name: str = "") -> bool:
    """True where the value has the form of a credential, or the variable's name says that it is one.

    >>> looks_secret("hunter2", name="WANDB_API_KEY")
    True
    >>> looks_secret("3e-4", name="LR")
    False
    """
    return bool(_FORMS.search(value)) or bool(value and _NAMES.search(name))


def redact(text: str) -> str:
    """The text with everything that has the form of a credential replaced by ``***``."""
    return _FORMS.sub(HIDDEN, text)
