"""Google Cloud's wire on this machine: the distribution ``gputrain-emulator``, by gputrain's name for it.

The emulator knows nothing of gputrain; its own package is ``gputrain_emulator``.
"""

try:
    from gputrain_emulator import Cloud as Cloud, start as start
except ModuleNotFoundError as error:
    if error.name != "gputrain_emulator":
        raise
    raise ModuleNotFoundError(
        "gputrain.emulator needs the distribution gputrain-emulator: pip install 'gputrain[emulator]'",
        name=error.name,
    ) from None
