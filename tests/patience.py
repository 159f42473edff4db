"""How long tests wait for what has to come: nobody's promise, and no measure of a machine's speed."""

PATIENCE_S = 240.0
"""Seconds; a test as a whole is ended a minute later."""
