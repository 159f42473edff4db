"""How code travels: finds what a spec's entry means on this machine, before anything is sent or started."""

from gputrain.staging.source import CodeSource, folder_of, resolve

__all__ = ["CodeSource", "folder_of", "resolve"]
