"""The inside of an emulated machine: its first process, and the walls around it.

Runs as `python -I -S` in a process of its own, with the standard library only; the emulator imports none of
it.
"""
