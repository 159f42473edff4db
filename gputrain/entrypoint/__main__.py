"""``python -m gputrain.entrypoint [options] -- train.py args``"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run one node agent and exit with the job's verdict."""
    from . import options, result
    from .agent import Agent

    if sys.argv[1:2] in (["--help"], ["-h"]):
        sys.stdout.write(options.usage() + "\n")
        return
    try:
        agent = Agent(options.parse(sys.argv[1:], os.environ))
    except options.EnvironmentRefused as refused:
        sys.stderr.write(f"gputrain.entrypoint: {refused}\n")
        sys.stderr.flush()
        sys.exit(result.refuse(os.environ, str(refused)))
    code = agent.run()
    sys.stdout.flush()
    os._exit(code)  # daemon threads may still wait for the metadata server


if __name__ == "__main__":
    main()
