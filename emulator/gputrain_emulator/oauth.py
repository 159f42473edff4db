"""Google's OAuth token endpoint: refresh tokens and service-account JWTs turned into access tokens.

Signatures are not checked: the emulator knows no keys. Times are, against the wall clock, as clients sign
with it.
"""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import parse_qs

from gputrain_emulator.call import Call
from gputrain_emulator.errors import ApiError, Style
from gputrain_emulator.faults import Refuse
from gputrain_emulator.routes import Service
from gputrain_emulator.world import Caller, claims_of

TOKEN_LIFE_S = 3599
JWT_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_MAX_LIFE_S = 3600
_TOLERANCE_S = 300  # how far iat may lie ahead; Google's own figure is not published
_BAD_TIMES = (
    "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. "
    "Check your iat and exp values in the JWT claim."
)

SERVICE = Service(name="oauth", style=Style.OAUTH)


def invalid_grant(message: str = "Bad Request") -> Refuse:
    """The refusal of a grant, to be ordered with `cloud.fail("oauth.token", oauth.invalid_grant())`."""
    return Refuse(error=ApiError(400, message, reason="invalid_grant"))


def clock_skew() -> Refuse:
    """What a service account's key gets on a machine whose clock is wrong."""
    return invalid_grant(_BAD_TIMES)


@SERVICE.route("POST", "/token", "oauth.token", permission="-", needs_api=False, is_raw=True)
def token(call: Call) -> dict[str, Any]:
    form = parse_qs(call.raw_body.decode("utf-8", "replace"))
    asked = {name: values[-1] for name, values in form.items()}
    grant = asked.get("grant_type", "")
    if grant == "refresh_token":
        caller = call.world.callers.by_refresh_token(asked.get("refresh_token", ""))
        if caller is None:
            raise invalid_grant("Token has been expired or revoked.").error
    elif grant == JWT_GRANT:
        caller = _of_assertion(call, asked.get("assertion", ""))
    elif not grant:
        raise ApiError(400, "Required parameter is missing: grant_type", reason="invalid_request")
    else:
        raise ApiError(400, f"Invalid grant_type: {grant}", reason="unsupported_grant_type")
    return {
        "access_token": call.world.callers.issue(caller),
        "expires_in": TOKEN_LIFE_S,
        "scope": "https://www.googleapis.com/auth/cloud-platform",
        "token_type": "Bearer",
    }


def _of_assertion(call: Call, assertion: str) -> Caller:
    claims = claims_of(assertion)
    if claims is None:
        raise invalid_grant("Invalid JWT: Token must be in the form header.payload.signature.").error
    if not call.world.callers.unsigned:
        raise invalid_grant("Invalid JWT Signature.").error
    email, issued, expires = claims.get("iss"), claims.get("iat"), claims.get("exp")
    if not isinstance(email, str) or "@" not in email:
        raise invalid_grant("Invalid JWT: Failed audience check.").error
    if not isinstance(issued, (int, float)) or not isinstance(expires, (int, float)):
        raise clock_skew().error
    now = time.time()
    if issued > now + _TOLERANCE_S or expires < now or expires - issued > _MAX_LIFE_S:
        raise clock_skew().error
    callers = call.world.callers
    return callers.by_email.get(email) or callers.add(email)


SERVICES = (SERVICE,)
