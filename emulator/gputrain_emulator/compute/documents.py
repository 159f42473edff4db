"""Plain resources: documents in collections, with get, list, delete and the pages of lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gputrain_emulator.call import Call
from gputrain_emulator.clock import compute_time, parse_time
from gputrain_emulator.compute import checks, filters, operations, refusals
from gputrain_emulator.compute.links import link
from gputrain_emulator.compute.operations import mutation
from gputrain_emulator.compute.state import COMPUTE, Compute, Operation
from gputrain_emulator.errors import ApiError

Json = dict[str, Any]


def create(call: Call, collection: str, kind: str, **more: Any) -> Operation:
    """Put the call's body into ``collection``; raises ApiError for a bad name or one that is taken."""
    compute = call.world.part(Compute)
    name = str(call.body.get("name", ""))
    checks.name(name, "resource.name")
    path = f"{operations.scope_of(call)}/{collection}/{name}"
    if path in compute.resources[collection]:
        raise refusals.already_exists(path)
    document = {
        **call.body, "kind": f"compute#{kind}", "id": call.world.new_id(), "selfLink": link(path),
        "creationTimestamp": compute_time(call.world.clock.now()), **more,
    }  # fmt: skip
    for place in ("zone", "region"):
        if place in call.params:
            document[place] = link(operations.scope_of(call))
    compute.resources[collection][path] = document
    call.world.ledger.write("create", path, caller=call.caller.email)
    return operations.carry_out(call, operations.begin_for(call, "insert", path, document["id"]))


def find(call: Call, collection: str, parameter: str) -> tuple[str, Json]:
    """Relative name and document of the resource in the path; raises ApiError 404."""
    path = f"{operations.scope_of(call)}/{collection}/{call.params[parameter]}"
    document = call.world.part(Compute).resources[collection].get(path)
    if document is None:
        raise refusals.not_found(path)
    return path, document


def register(
    collection: str,
    kind: str,
    parameter: str,
    *,
    deletes: bool = True,
    usual: Callable[[Call], list[Json]] = lambda _: [],
    at_delete: Callable[[Call, Json], None] = lambda _call, _document: None,
    user_of: Callable[[Call, Json], str] = lambda _call, document: (document.get("users") or [""])[0],
) -> None:
    """get, list and delete of ``collection``, whose items are called ``kind``, and ``parameter`` in paths.

    ``usual`` are the items that every project has, unless one of its own goes by the name. ``user_of`` names
    what uses an item, so that it cannot be deleted.
    """

    @COMPUTE.method(f"compute.{collection}.get", pool="compute.reads")
    def get(call: Call) -> Json:
        name = call.params[parameter]
        operations.scope_of(call)
        try:
            return find(call, collection, parameter)[1]
        except ApiError:
            found = next((one for one in usual(call) if one["name"] == name), None)
            if found is None:
                raise
            return found

    @COMPUTE.method(f"compute.{collection}.list", pool="compute.reads")
    def list_(call: Call) -> Json:
        name = f"{operations.scope_of(call)}/{collection}"
        kept = call.world.part(Compute).resources[collection]
        own = {
            document["name"]: document
            for path, document in kept.items()
            if path.startswith(f"{name}/")
            and call.shows(parse_time(document.get("creationTimestamp", "1970-01-01")))
        }
        every = {**{one["name"]: one for one in usual(call)}, **own}
        return filters.listing(call, kind, name, list(every.values()))

    def delete(call: Call) -> Operation:
        path, document = find(call, collection, parameter)
        user = user_of(call, document)
        if user:
            raise refusals.in_use(path, user)
        operation = operations.begin_for(call, "delete", path, document["id"])
        del call.world.part(Compute).resources[collection][path]
        at_delete(call, document)
        call.world.ledger.write("delete", path, caller=call.caller.email)
        return operations.carry_out(call, operation)

    if deletes:
        mutation(f"compute.{collection}.delete")(delete)
