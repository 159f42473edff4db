"""``POST /_emulator/COMMAND``: what the Python object can do, from a shell."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gputrain_emulator.call import Reply
from gputrain_emulator.compute import images
from gputrain_emulator.dispatch import Dispatcher
from gputrain_emulator.errors import ApiError
from gputrain_emulator.exchanges import Request
from gputrain_emulator.schema import decoded
from gputrain_emulator.world import Accounts

if TYPE_CHECKING:
    from gputrain_emulator.cloud import Cloud


def answer(dispatcher: Dispatcher, request: Request) -> Reply:
    """Run one command; the body is a JSON object of its arguments."""
    command = request.target.partition("?")[0].removeprefix("/_emulator/")
    if request.verb != "POST":
        return _json(403, {"error": "commands are POST requests"})
    try:
        dispatcher.world.callers.find(request.headers.get("authorization", ""))
        values = decoded(request.body or b"{}")
        if not isinstance(values, dict):
            raise ValueError("the body must be a JSON object")
        return _json(200, dispatcher.admin(command, values))
    except ApiError as error:
        return _json(error.status, {"error": error.message})
    except LookupError as error:
        return _json(404, {"error": str(error)})
    except (ArithmeticError, TypeError, ValueError) as error:
        return _json(400, {"error": str(error)})


def _json(status: int, document: Any) -> Reply:
    return Reply(status=status, body=json.dumps(document, default=str, indent=1).encode() + b"\n")


def _advance(cloud: Cloud, seconds: float) -> Any:
    cloud.clock.advance(seconds)
    return {"now": cloud.clock.now()}


def _ledger(cloud: Cloud) -> Any:
    return {"table": str(cloud.ledger).splitlines(), "cost_usd": round(cloud.cost_usd, 4)}


def _fail(cloud: Cloud, method: str, fault: str, times: int | None = 1, **more: Any) -> Any:
    cloud.fail(method, fault, times=times, **more)
    return {"method": method, "fault": fault, "times": times}


def _instances(cloud: Cloud) -> Any:
    with cloud.world.lock:
        return {vm.path: vm.status for vm in cloud.compute.vms.values()}


def _add_vm_image(cloud: Cloud, project: str, name: str, family: str, size_gb: int = 10) -> Any:
    with cloud.world.lock:
        if project not in cloud.world.projects:
            cloud.add_project(project)
        images.add_image(cloud.compute, project, name, family, size_gb)
    return {"image": f"projects/{project}/global/images/{name}"}


def _service_account(cloud: Cloud, email: str, exists: bool = True, disabled: bool = False) -> Any:
    with cloud.world.lock:
        accounts = cloud.world.part(Accounts)
        (accounts.missing.discard if exists else accounts.missing.add)(email)
        (accounts.disabled.add if disabled else accounts.disabled.discard)(email)
    return {"email": email, "exists": exists, "disabled": disabled}


COMMANDS: dict[str, Callable[..., Any]] = {
    "advance": _advance,
    "ledger": _ledger,
    "fail": _fail,
    "instances": _instances,
    "add_vm_image": _add_vm_image,
    "service_account": _service_account,
}
"""What a shell is answered otherwise than Python."""

METHODS = (
    "quota", "stock", "offer", "price", "preempt", "host_error", "maintenance", "power_off", "add_project",
    "add_bucket", "add_image", "enable_api", "rate_limit", "settings",
)  # fmt: skip
"""The methods of ``Cloud`` that are commands too."""


def run_command(cloud: Cloud, command: str, values: dict[str, Any]) -> Any:
    """Carry out ``command``.

    Raises LookupError for one there is not, TypeError and ValueError for wrong arguments.
    """
    if command in METHODS:
        getattr(cloud, command)(**values)
        return {"done": command}
    if command not in COMMANDS:
        known = ", ".join(sorted([*COMMANDS, *METHODS]))
        raise LookupError(f"no such command: {command}; there are {known}")
    return COMMANDS[command](cloud, **values)
