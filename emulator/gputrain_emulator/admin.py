"""``POST /_emulator/COMMAND``: what the Python object can do, from a shell."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gputrain_emulator.accounts import Accounts
from gputrain_emulator.call import Reply
from gputrain_emulator.compute import images
from gputrain_emulator.dispatch import Dispatcher
from gputrain_emulator.errors import ApiError
from gputrain_emulator.exchanges import Request
from gputrain_emulator.schema import decoded

if TYPE_CHECKING:
    from gputrain_emulator.cloud import Cloud


def answer(dispatcher: Dispatcher, request: Request) -> Reply:
    """Run one command; the body is a JSON object of its arguments."""
    command = request.target.partition("?")[0].removeprefix("/_emulator/")
    if request.verb != "POST":
        return _json(403, {"error": "commands are POST requests"})
    try:
        dispatcher.world.callers.find(request.headers.get("authorization", ""))
        arguments = decoded(request.body or b"{}")
        if not isinstance(arguments, dict):
            raise ValueError("the body must be a JSON object")
        return _json(200, dispatcher.admin(command, arguments))
    except ApiError as error:
        return _json(error.status, {"error": error.message})
    except LookupError as error:
        return _json(404, {"error": str(error)})
    except (ArithmeticError, TypeError, ValueError) as error:
        return _json(400, {"error": str(error)})


_LONGEST_S = 100 * 365 * 86400.0


def _json(status: int, document: Any) -> Reply:
    return Reply(status=status, body=json.dumps(document, default=str, indent=1).encode() + b"\n")


def _advance(cloud: Cloud, seconds: float) -> Any:
    if not 0 <= float(seconds) <= _LONGEST_S:
        raise ValueError(f"seconds must be between 0 and {_LONGEST_S:g}: no date lies behind them")
    cloud.clock.advance(float(seconds))
    return {"now": cloud.clock.now()}


def _ledger(cloud: Cloud) -> Any:
    return {"table": str(cloud.ledger).splitlines(), "cost_usd": round(cloud.cost_usd, 4)}


def _fail(cloud: Cloud, method: str, fault: str, times: int | None = 1, **more: Any) -> Any:
    cloud.fail(method, str(fault), times=times, **more)
    return {"method": method, "fault": fault, "times": times}


def _instances(cloud: Cloud) -> Any:
    with cloud.world.lock:
        return {vm.path: vm.status for vm in cloud.compute.vms.values()}


def _add_vm_image(cloud: Cloud, project: str, name: str, family: str, size_gb: int = 10) -> Any:
    with cloud.world.lock:
        if project not in cloud.world.projects:
            cloud.add_project(project)
        images.add_image(cloud.compute, project, name, family, int(size_gb))
    return {"image": f"projects/{project}/global/images/{name}"}


def _service_account(cloud: Cloud, email: str, exists: bool = True, disabled: bool = False) -> Any:
    with cloud.world.lock:
        accounts = cloud.world.part(Accounts)
        (accounts.missing.discard if exists else accounts.missing.add)(email)
        (accounts.disabled.add if disabled else accounts.disabled.discard)(email)
    return {"email": email, "exists": exists, "disabled": disabled}


def _verb(name: str) -> Callable[..., Any]:
    def run(cloud: Cloud, **arguments: Any) -> Any:
        getattr(cloud, name)(**arguments)
        return {"done": name}

    return run


COMMANDS: dict[str, Callable[..., Any]] = {
    "advance": _advance,
    "ledger": _ledger,
    "fail": _fail,
    "instances": _instances,
    "add_vm_image": _add_vm_image,
    "service_account": _service_account,
    **{
        name: _verb(name)
        for name in ("quota", "stock", "offer", "price", "preempt", "host_error", "maintenance", "power_off")
    },
    **{
        name: _verb(name)
        for name in (
            "add_project",
            "add_bucket",
            "add_image",
            "enable_api",
            "rate_limit",
            "settings",
            "set_apart",
        )
    },
}
"""Each takes the arguments of the ``Cloud`` method of its name, where there is one."""


def run_command(cloud: Cloud, command: str, arguments: dict[str, Any]) -> Any:
    """Carry out ``command``; raises LookupError for one there is not, TypeError for wrong arguments."""
    if command not in COMMANDS:
        raise LookupError(f"no such command: {command}; there are {', '.join(sorted(COMMANDS))}")
    return COMMANDS[command](cloud, **arguments)
