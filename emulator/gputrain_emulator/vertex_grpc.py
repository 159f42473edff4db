"""Vertex AI's JobService over gRPC: the same handlers as REST, reached with the clients' own protobuf types.

A request becomes the JSON document that REST would have brought, so one implementation answers both.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from concurrent import futures
from dataclasses import replace
from typing import Any

import grpc
from google.cloud.aiplatform_v1.types import (
    CancelCustomJobRequest,
    CreateCustomJobRequest,
    CustomJob,
    DeleteCustomJobRequest,
    GetCustomJobRequest,
    ListCustomJobsRequest,
    ListCustomJobsResponse,
)
from google.longrunning import operations_pb2
from google.protobuf import any_pb2, empty_pb2, json_format
from google.rpc import status_pb2

from gputrain_emulator.call import Call, Reply
from gputrain_emulator.dispatch import Dispatcher, Dropped
from gputrain_emulator.errors import ApiError, Style
from gputrain_emulator.exchanges import Seen
from gputrain_emulator.faults import DropAfterCommit, Truncate
from gputrain_emulator.routes import Method

WORKERS = 16
_MAX_MESSAGE = 10 << 20

# rpc -> (request, response, method id, the request's field that is REST's body)
_RPCS: Mapping[str, tuple[Any, Any, str, str]] = {
    "CreateCustomJob": (CreateCustomJobRequest, CustomJob, "aiplatform.customJobs.create", "customJob"),
    "GetCustomJob": (GetCustomJobRequest, CustomJob, "aiplatform.customJobs.get", ""),
    "ListCustomJobs": (ListCustomJobsRequest, ListCustomJobsResponse, "aiplatform.customJobs.list", ""),
    "CancelCustomJob": (CancelCustomJobRequest, empty_pb2.Empty, "aiplatform.customJobs.cancel", ""),
    "DeleteCustomJob": (
        DeleteCustomJobRequest,
        operations_pb2.Operation,
        "aiplatform.customJobs.delete",
        "",
    ),
}
_OPERATIONS: Mapping[str, tuple[Any, Any, str, str]] = {
    "GetOperation": (
        operations_pb2.GetOperationRequest,
        operations_pb2.Operation,
        "aiplatform.operations.get",
        "",
    ),
    "WaitOperation": (
        operations_pb2.WaitOperationRequest,
        operations_pb2.Operation,
        "aiplatform.operations.wait",
        "",
    ),
}


def serve(dispatcher: Dispatcher) -> tuple[str, Callable[[], None]]:
    """Listen on a free loopback port; returns `127.0.0.1:PORT` and what ends it."""
    dispatcher.routes.load()
    server = grpc.server(
        futures.ThreadPoolExecutor(max_workers=WORKERS, thread_name_prefix="emulator-grpc"),
        options=[("grpc.max_receive_message_length", _MAX_MESSAGE), ("grpc.so_reuseport", 0)],
    )
    for service, rpcs in (
        ("google.cloud.aiplatform.v1.JobService", _RPCS),
        ("google.longrunning.Operations", _OPERATIONS),
    ):
        handlers = {name: _handler(dispatcher, *row) for name, row in rpcs.items()}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    server.add_generic_rpc_handlers((_Unserved(dispatcher),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return f"127.0.0.1:{port}", lambda: server.stop(grace=None).wait(5)


class _Unserved(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc has no types
    """Every other method of Google's services, Pub/Sub's for one, streams among them: refused by its name."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        error = ApiError.unimplemented(details.method.strip("/").replace("/", "."))
        seen = Seen(verb="POST", path=details.method, method="", caller="", status=error.status, body=b"")

        def refuse(_: Any, context: grpc.ServicerContext) -> Any:
            self._dispatcher.requests.append(seen)
            _abort(context, error)

        return grpc.stream_stream_rpc_method_handler(refuse)


def _handler(dispatcher: Dispatcher, request: Any, response: Any, method_id: str, body: str) -> Any:
    request_pb, response_pb = _pb(request), _pb(response)

    def run(message: Any, context: grpc.ServicerContext) -> Any:
        document = json_format.MessageToDict(message)
        seen = _seen(dispatcher, method_id, body, document)
        try:
            reply = _answer(dispatcher, method_id, body, document, context)
        except ApiError as error:
            told = error.encoded(Style.PLATFORM)
            dispatcher.requests.append(replace(seen, status=error.status, reply=told))
            _abort(context, error)
        except Dropped:
            dispatcher.requests.append(replace(seen, status=0))
            context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
        except Exception as error:  # noqa: BLE001  the top of a thread: a fault of ours becomes Google's 500
            dispatcher.fail(error)
            context.abort(grpc.StatusCode.INTERNAL, "Internal error encountered.")
        dispatcher.requests.append(replace(seen, reply=json.dumps(reply).encode()))
        return json_format.ParseDict(reply, response_pb(), ignore_unknown_fields=True)

    return grpc.unary_unary_rpc_method_handler(
        run, request_deserializer=request_pb.FromString, response_serializer=response_pb.SerializeToString
    )


def _seen(dispatcher: Dispatcher, method_id: str, body: str, document: Mapping[str, Any]) -> Seen:
    """The line of the request log: the REST request that this call stands for."""
    collection, verb = method_id.split(".")[1:]
    named = dict(document)
    if "parent" in named:
        path = f"/v1/{named.pop('parent')}/{collection}"
    else:
        path = f"/v1/{named.pop('name', '')}" + (f":{verb}" if verb in ("cancel", "wait") else "")
    sent = named.pop(body, {}) if body else {}
    return Seen(
        verb=dispatcher.routes.methods[method_id].verb,
        path=path,
        method=method_id,
        caller="",
        status=200,
        body=json.dumps(sent).encode() if sent else b"",
        query={key: [str(value)] for key, value in named.items()},
    )


def _pb(message: Any) -> Any:
    return message.pb() if hasattr(message, "pb") else message


def _answer(
    dispatcher: Dispatcher, method_id: str, body: str, document: dict[str, Any], context: Any
) -> dict[str, Any]:
    metadata = {str(key): str(value) for key, value in context.invocation_metadata()}
    caller = dispatcher.world.callers.find(metadata.get("authorization", ""))
    instead = dispatcher.before(method_id, caller.email)
    if instead is not None:
        raise _of_reply(instead)
    method = dispatcher.routes.methods[method_id]
    params: dict[str, str] = {key: document.pop(key) for key in ("parent", "name") if key in document}
    call = Call(
        world=dispatcher.world,
        method=method,
        params=params,
        query={} if body else document,
        body=document.get(body, {}) if body else {},
        headers=metadata,
        caller=caller,
        base_url=dispatcher.world.base_url,
        path=f"/v1/{params.get('parent') or params.get('name', '')}",
    )
    call.project = _project(dispatcher, method, params)
    result = dispatcher.run(call)
    reply = result if isinstance(result, Reply) else Reply(body=result)
    wire, reply = dispatcher.after(method_id, caller.email, reply)
    if any(isinstance(fault, (DropAfterCommit, Truncate)) for fault in wire):
        raise Dropped
    return reply.body if isinstance(reply.body, dict) else {}


def _project(dispatcher: Dispatcher, method: Method, params: Mapping[str, str]) -> Any:
    name = (params.get("parent") or params.get("name", "")).split("/")
    if len(name) < 4 or name[0] != "projects" or name[2] != "locations":
        raise ApiError(400, f"Invalid resource name: {'/'.join(name)}")
    return dispatcher.project(method, params)


def _of_reply(reply: Reply) -> ApiError:
    """What a proxy's page or a half document looks like to a gRPC client."""
    return ApiError(
        reply.status, f"Received http2 header with status: {reply.status}", canonical="UNAVAILABLE"
    )


def _abort(context: grpc.ServicerContext, error: ApiError) -> None:
    code = getattr(grpc.StatusCode, error.canonical, grpc.StatusCode.UNKNOWN)
    status = status_pb2.Status(code=code.value[0], message=error.message)
    for detail in error.details:
        packed = any_pb2.Any()
        json_format.ParseDict(dict(detail), packed)
        status.details.append(packed)
    trailing = [("grpc-status-details-bin", status.SerializeToString())]
    trailing += [(name.lower(), value) for name, value in error.headers.items() if name != "WWW-Authenticate"]
    context.set_trailing_metadata(tuple(trailing))
    context.abort(code, error.message)
