"""How code travels: what a spec runs on this machine, the files that go with it, functions as scripts."""

from gputrain.code.entry import CodeSource, folder_of, resolve

__all__ = ["CodeSource", "folder_of", "resolve"]
