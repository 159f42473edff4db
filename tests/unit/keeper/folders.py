"""What is written into a folder that is mirrored, and what of it is in the bucket."""

import os

STEP = "step-000000000004"


def write(made, **files):
    """Files of the folder, older than a script takes to close one."""
    for name, text in files.items():
        path = os.path.join(made.folder, name.replace("__", "/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)


def sent(made):
    return set(made.store.items())
