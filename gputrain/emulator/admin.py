"""``POST /_emulator/COMMAND``: what the Python object can do, for those who start the emulator from a shell."""

from __future__ import annotations

import json
from typing import Any

from gputrain.emulator.call import Reply
from gputrain.emulator.dispatch import Dispatcher, Request


def answer(dispatcher: Dispatcher, request: Request) -> Reply:
    """Run one command of ``Cloud.admin``; the body is a JSON object of its arguments."""
    command = request.target.partition("?")[0].removeprefix("/_emulator/")
    try:
        arguments = json.loads(request.body or b"{}")
        if not isinstance(arguments, dict):
            raise ValueError("the body must be a JSON object")
        return _json(200, dispatcher.admin(command, arguments))
    except LookupError as error:
        return _json(404, {"error": str(error)})
    except (TypeError, ValueError) as error:
        return _json(400, {"error": str(error)})


def _json(status: int, document: Any) -> Reply:
    return Reply(status=status, body=json.dumps(document, default=str, indent=1).encode() + b"\n")
