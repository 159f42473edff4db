"""Where jobs run: one folder a platform, none of which knows another."""

from gputrain.backends.base import Backend, Bundle, JobRef, LogLine, LogPage, Request

__all__ = ["Backend", "Bundle", "JobRef", "LogLine", "LogPage", "Request"]
