"""Page tokens: the name after which the next page begins."""

from __future__ import annotations

import base64
import binascii

from gputrain_emulator.storage.refusals import invalid


def encode(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode("utf-8", "surrogatepass")).decode()


def decode(token: str) -> str:
    """What was encoded; 400 for a token that is none."""
    try:
        return base64.b64decode(token, altchars=b"-_", validate=True).decode("utf-8", "surrogatepass")
    except (binascii.Error, UnicodeError, ValueError):
        raise invalid("Invalid value for pageToken.") from None
