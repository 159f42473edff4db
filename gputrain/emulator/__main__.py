"""``python -m gputrain.emulator``: the command ``gputrain-emulator``."""

import sys

from gputrain_emulator.__main__ import main

sys.exit(main())
