"""Customer-supplied encryption keys: read from the headers, and asked for wherever the bytes are.

Only the hash of a key is kept, as Google does; the bytes lie as they came in the emulator's own folder.
Source: cloud.google.com/storage/docs/encryption/customer-supplied-keys and
/json_api/v1/status-codes, read 2026-11-22.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping

from gputrain_emulator.storage.refusals import invalid
from gputrain_emulator.storage.values import Stored

ALGORITHM = "AES256"
_KEY_BYTES = 32
_OF_OBJECT = ("x-goog-encryption-algorithm", "x-goog-encryption-key", "x-goog-encryption-key-sha256")
_OF_SOURCE = tuple(name.replace("x-goog-", "x-goog-copy-source-") for name in _OF_OBJECT)


def key_sha256(headers: Mapping[str, str], *, of_source: bool = False) -> str:
    """The hash of the key that came with a call, "" without one; 400 for a key that is none.

    `of_source` reads the key of a copy's source.
    """
    names = _OF_SOURCE if of_source else _OF_OBJECT
    if headers.keys().isdisjoint(names):
        return ""
    algorithm, key, told = (headers.get(name, "") for name in names)
    if algorithm != ALGORITHM:
        raise invalid(
            'Missing an encryption algorithm, or the provided algorithm is not "AES256."',
            reason="customerEncryptionAlgorithmIsInvalid",
        )
    try:
        plain = base64.b64decode(key, validate=True)
    except (binascii.Error, ValueError):
        plain = b""
    if len(plain) != _KEY_BYTES:
        raise invalid(
            "Missing an encryption key, or it is not base64 encoded, or it does not meet the required length "
            "of the encryption algorithm.",
            reason="customerEncryptionKeyFormatIsInvalid",
        )
    found = base64.b64encode(hashlib.sha256(plain).digest()).decode()
    if told != found:
        raise invalid(
            "Missing a SHA256 hash of the encryption key, or it is not base64 encoded, or it does not match "
            "the encryption key.",
            reason="customerEncryptionKeySha256IsInvalid",
        )
    return found


def check_key(stored: Stored, given: str) -> None:
    """400 where the bytes need a key that was not given, or were given one that they do not need."""
    check_key_of(stored.writer.key_sha256, given)


def check_key_of(needed: str, given: str) -> None:
    """400 unless the key that is needed is the one that was given, by their hashes; "" is none."""
    if needed and not given:
        raise invalid(
            "The target object is encrypted by a customer-supplied encryption key.",
            reason="resourceIsEncryptedWithCustomerEncryptionKey",
        )
    if given and not needed:
        raise invalid(
            "The target object is not encrypted by a customer-supplied encryption key.",
            reason="resourceNotEncryptedWithCustomerEncryptionKey",
        )
    if given != needed:
        raise invalid("The provided encryption key is incorrect.", reason="customerEncryptionKeyIsIncorrect")


def headers_of(stored: Stored) -> dict[str, str]:
    """What a download says of the key."""
    if not stored.writer.key_sha256:
        return {}
    return {
        "X-Goog-Encryption-Algorithm": ALGORITHM,
        "X-Goog-Encryption-Key-Sha256": stored.writer.key_sha256,
    }
