"""Looks at everything a job needs before one is made, and tells every fault at once, with what mends it.

::

    Checks                  the report: a value that shows itself as a table
    Question                one thing to look at; what it raises becomes a finding
    examine(backend, ...)   asks side by side, stage after stage

The other modules are the questions that cloud backends share. Nothing here writes, and nothing that cannot
be looked at is taken for a fault: it is unknown, and says why.
"""

from gputrain.preflight.checks import Check, Checks, Finding, Question, examine

__all__ = ["Check", "Checks", "Finding", "Question", "examine"]
