"""One fault that can be planted into a file of the repository."""

from pathlib import Path

import attrs

ROOT = Path(__file__).parents[2]


@attrs.frozen(kw_only=True)
class Plant:
    """A fault: a text that stands in a file exactly once, and the faulty text that replaces it."""

    name: str
    file: str
    """Relative to the root."""
    text: str
    instead: str
    caught_by: tuple[str, ...] = ()
    """Node ids; each of these tests fails with the fault."""

    @property
    def path(self):
        return ROOT / self.file

    @property
    def module(self):
        """The name under which Python imports the file."""
        return self.file.removesuffix(".py").replace("/", ".")

    def planted(self, source):
        """The file's text with the fault; LookupError unless the original text stands there once."""
        if source.count(self.text) != 1:
            raise LookupError(f"{self.name}: {self.file} holds {source.count(self.text)} times {self.text!r}")
        return source.replace(self.text, self.instead)
