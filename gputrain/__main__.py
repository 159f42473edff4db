"""``python -m gputrain``: the command line."""

import sys

from gputrain.cli import main

if __name__ == "__main__":
    sys.exit(main())
