"""Compute Engine VMs: a gang starts whole, tells why it ended, and removes itself."""

from gputrain.backends.compute.backend import ComputeEngine

__all__ = ["ComputeEngine"]
