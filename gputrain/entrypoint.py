"""``python -m gputrain.entrypoint [options] -- train.py args``: the ranks of one node.

They get the environment that torchrun gives, are watched together with those of the other nodes, and the
command ends with the job's result. `gputrain.runtime` is what it stands on.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run one node and exit with the job's result."""
    from .runtime import options, result
    from .runtime.node import Node

    if sys.argv[1:2] in (["--help"], ["-h"]):
        sys.stdout.write(options.usage() + "\n")
        return
    try:
        node = Node(options.parse(sys.argv[1:], os.environ))
    except options.EnvironmentRefused as refused:
        sys.stderr.write(f"gputrain.entrypoint: {refused}\n")
        sys.stderr.flush()
        sys.exit(result.refuse(os.environ, str(refused)))
    code = node.run()
    sys.stdout.flush()
    os._exit(code)  # daemon threads may still wait for the metadata server


if __name__ == "__main__":
    main()
