"""What looks after a job where it runs: standard library only, Python 3.9 or newer.

It travels with the code of a job; its loader alone is the command of a container.
"""
