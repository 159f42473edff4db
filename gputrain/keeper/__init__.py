"""What looks after a job where it runs: standard library only, Python 3.7 or newer.

It travels as it is: in a VM's metadata, in the command of a container, and beside the code of a job.
"""
