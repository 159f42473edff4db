"""What becomes of a guest by itself, drawn for each alone."""

import random

import attrs


@attrs.frozen(kw_only=True)
class Fate:
    """What becomes of one guest by itself."""

    boot_s: float
    train_s: float
    end: str
    """done, fails, dies: while it trains; hangs: until it is killed; mute: it cannot write to the bucket;
    no boot: never up."""
    late_s: float
    """How late its last word comes."""


def fate_of(seed, name, ends):
    """The fate of the guest of that name: drawn for it alone, so that no other draw changes it."""
    dice = random.Random(f"{seed} guest {name}")
    return Fate(
        boot_s=dice.choice((5.0, 20.0, 60.0)), train_s=dice.choice((15.0, 60.0, 400.0)),
        end=dice.choice(ends), late_s=dice.choice((0.5, 0.5, 30.0)),
    )  # fmt: skip
