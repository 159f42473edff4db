"""A model made one that all ranks train together: replicated by DDP, or spread over them by FSDP2."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gputrain.ddp.errors import SessionError
from gputrain.ddp.process_group import Peers

WRAPPING = "wrapping a model"


def replicated(model: Any, device: Any, options: dict[str, Any], *, exact: bool) -> Any:
    """The model in DistributedDataParallel; see `Session.wrap`."""
    from torch.nn.parallel import DistributedDataParallel

    if exact:
        if options.get("static_graph"):
            raise SessionError(
                "static_graph=True cannot be resumed exactly",
                why="with it DDP lays its buckets out anew after the first step",
                fix="leave out static_graph, or exact_resume",
            )
        options = {**options, "find_unused_parameters": True}
    if device.type == "mps":  # this rank is alone, and no process group carries such tensors
        return model.to(device)
    if device.type == "cuda":
        options = {"device_ids": [device.index], **options}
    return DistributedDataParallel(model.to(device), **options)


def sharded(
    model: Any, device: Any, peers: Peers, *, blocks: tuple[type, ...] | None = None, **options: Any
) -> Any:
    """The model spread over the ranks by FSDP2, in place; see `Session.wrap`."""
    import torch
    from torch.distributed.device_mesh import init_device_mesh

    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError:
        raise SessionError(
            f'strategy="fsdp" needs torch 2.6 or newer; this is {torch.__version__}',
            fix="use a newer image, or the strategy ddp",
        ) from None
    values = dict((*model.named_parameters(), *model.named_buffers()))
    peers.agree({name: f"{list(one.shape)} of {one.dtype}" for name, one in values.items()}, WRAPPING)
    model.to(device)
    with torch.no_grad():  # each rank has drawn weights of its own; DDP does the same by itself
        for value in (*model.parameters(), *model.buffers()):
            fresh = value.contiguous()
            torch.distributed.broadcast(fresh, 0)
            value.copy_(fresh)
    options.setdefault("mesh", init_device_mesh(device.type, (peers.world_size,)))
    for block in _blocks(model, blocks):
        fully_shard(block, **options)
    return fully_shard(model, **options)


def _blocks(model: Any, kinds: tuple[type, ...] | None) -> Iterator[Any]:
    """Inner modules to gather one at a time, the innermost first, as fully_shard wants them."""
    from torch.nn import ModuleDict, ModuleList

    members = {
        id(member) for module in model.modules() if isinstance(module, ModuleList) for member in module
    }
    for module in reversed(list(model.modules())):
        wanted = id(module) in members if kinds is None else isinstance(module, kinds)
        holds = any(True for _ in module.parameters()) and not isinstance(module, (ModuleList, ModuleDict))
        if wanted and holds and module is not model:
            yield module
