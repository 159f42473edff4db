"""Imported by a script, it has Ctrl-C end it as a command: with a line of what goes on, and status 130."""

import sys
from types import TracebackType

GOES_ON = "stopped; `gputrain jobs` lists what goes on, and `gputrain wait JOB` takes it up"


def ended(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    sys.stderr.write(f"\n{str(error) or GOES_ON}\n")  # that of a wait or a submit says what became of the job
    sys.exit(130)


sys.excepthook = ended
