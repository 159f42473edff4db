"""Compute Engine VMs: all VMs of a job start or none, say why they ended, and remove themselves."""

from gputrain.backends.compute.backend import ComputeEngine

__all__ = ["ComputeEngine"]
