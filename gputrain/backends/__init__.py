"""Where jobs run: one folder a platform, none of which knows another.

Nothing is imported here: the process that looks after a local job runs on the standard library alone.
"""
