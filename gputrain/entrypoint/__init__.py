"""The half of gputrain that runs in the container: a node agent made of the standard library alone.

``python -m gputrain.entrypoint [options] -- train.py args`` starts the ranks of one node with the environment
torchrun gives, watches them together with the agents of the other nodes, and ends with the job's verdict.
The syntax stays that of Python 3.9, as the user's image decides which Python there is.
"""
