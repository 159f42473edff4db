"""torch's store of ranks that meet on loopback, held to that address; torch itself would listen on all.

Who reaches the store tells ranks where to connect, and what then comes there is unpickled: on a machine with
a network, a stranger's code. torch takes a socket that is bound already; a script's ``init_process_group``
never hands it one.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import socket
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

_MAKER = "torch.distributed.rendezvous"
"""The module that makes the store of ``env://`` and ``tcp://``, and looks ``TCPStore`` up in itself."""


def hold() -> None:
    """See to it that rank 0's store, once torch makes one, listens at ``MASTER_ADDR`` alone."""
    if os.environ.get("RANK") == "0" and os.environ.get("MASTER_ADDR", "").startswith("127."):
        sys.meta_path.insert(0, _Finder())


class _Finder:
    """Steps aside when its module is looked for, and changes one name in it once it has run."""

    def find_spec(self, name: str, *_: object) -> Any:
        if name != _MAKER:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module = functools.partial(_run, spec.loader.exec_module)  # type: ignore[method-assign]
        return spec


def _run(run: Callable[[Any], None], module: Any) -> None:
    run(module)
    if hasattr(module, "TCPStore"):
        module.TCPStore = functools.partial(_store, module.TCPStore)


def _store(make: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """The store; torch's own way where it is none of rank 0's, has a server already, or takes no socket."""
    if options.get("is_master") and options.get("host_name") == os.environ.get("MASTER_ADDR"):
        try:
            return make(*args, **options, master_listen_fd=_bound(options["host_name"], options["port"]))
        except (OSError, TypeError):
            pass
    return make(*args, **options)


def _bound(address: str, port: int) -> int:
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, port))
        return sock.detach()
