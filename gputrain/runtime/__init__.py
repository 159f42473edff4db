"""The half of gputrain that runs where a job does: in its container, on its VM, beside a local job.

Standard library only, and Python 3.9: the user's image decides which Python there is.
"""
