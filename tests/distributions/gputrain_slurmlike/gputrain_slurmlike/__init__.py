"""A batch system on one machine, as a backend of gputrain: partitions are places, a job is a folder."""

from gputrain_slurmlike.backend import Slurm

__all__ = ["Slurm"]
