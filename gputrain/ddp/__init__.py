"""The helper for training scripts: one `with` block gives process group, device, data, checkpoints and stops.

::

    from gputrain import ddp

    with ddp.session() as s:
        model = s.wrap(Net())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        s.register(model=model, optimizer=optimizer)
        for step, (x, y) in s.steps(s.loader(dataset, batch_size=32), epochs=3, save_every=100):
            ...
            s.report(step=step, loss=loss)

The same script runs as ``python train.py`` on a laptop, under torchrun, and on every gputrain backend.
A script may use all of it, some of it or none.
Importing this needs the standard library only; torch is loaded when a session begins.
"""

from __future__ import annotations

from gputrain.ddp.checkpoints import Checkpoint, Checkpoints
from gputrain.ddp.errors import CheckpointError, DdpError, SessionError
from gputrain.ddp.session import Session, session

__all__ = ["Checkpoint", "CheckpointError", "Checkpoints", "DdpError", "Session", "SessionError", "session"]
