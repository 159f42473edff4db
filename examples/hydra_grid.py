"""Hydra composes each configuration, gputrain makes one job of it; run again, it goes on where it was.

python examples/hydra_grid.py lr=0.1,0.03 seed=0,1 steps=10

A launcher for Hydra's own ``--multirun`` would have to be installed as a package ``hydra_plugins``.
"""

import sys
from dataclasses import dataclass

from hydra import compose, initialize
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

import gputrain


@dataclass
class Parameters:
    """What `train_session.py` takes, with types that Hydra checks."""

    steps: int = 20
    lr: float = 0.05
    seed: int = 0


ConfigStore.instance().store(name="parameters", node=Parameters)


def axes(words):
    """The values that words give to parameters: ``lr=0.1,0.03``, ``seed=range(3)``, ``steps=10``."""
    given = OverridesParser.create().parse_overrides(words)
    return {
        one.key_or_group: list(one.sweep_string_iterator()) if one.is_sweep_override() else [one.value()]
        for one in given
    }


def composed(point):
    """The whole configuration of a point, by name."""
    config = compose("parameters", overrides=[f"{name}={value}" for name, value in point.items()])
    return OmegaConf.to_container(config, resolve=True)


words = sys.argv[1:] or ["lr=0.1,0.03", "seed=0,1", "steps=10"]
with initialize(version_base=None):
    scan = gputrain.Trainer().map(
        "examples/train_session.py", gputrain.grid(**axes(words)), name="hydra-scan", arguments=composed
    )
print(scan.wait("200s"))
print("best:", scan.best("loss").point)
