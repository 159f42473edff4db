"""500 malformed specs, drawn from one seed: each with the field that is wrong."""

import random

WRONG = {
    "script": ["", "a\0b", 3, []],
    "module": ["not a module", "a..b", 1, "1a"],
    "command": [[], "python t.py", [1], [""]],
    "function": ["train", 3],
    "args": ["--lr 3", [3], [None], {"a": 1}, ["a\0"]],
    "gpu": [
        "H100\n:2",
        "-H100:2",
        "H100:0",
        "H100:-2",
        "H100:x",
        "",
        ":",
        "H100:2:2",
        True,
        0,
        -1,
        3.5,
        ["H100:2", "no:x"],
    ],
    "num_nodes": [0, -1, 1.5, "2", True, None, 10**6],
    "nproc_per_node": [0, -4, "8", 65, False],
    "provisioning_model": ["preemptible", "SPOT ", ["spot", ""], 3],
    "reservation": ["", 3],
    "machine_type": ["", "two words", "a" * 101, 8],
    "image": ["", "two words", 3],
    "env": [["A"], "A=1", 3],
    "secrets": [["A"], "TOKEN", 3],
    "source_dir": ["", 3, "a\0"],
    "requirements": ["torch", [""], ["--index-url=x"], 3, ["-e", "."]],
    "checkpoint_dir": ["", 1],
    "output_dir": ["", {}],
    "max_run_duration": ["-1h", "0s", "1.5h", "soon", 3600, None, "29d", ""],
    "max_wait_duration": ["-1h", 60, "", "1 h"],
    "price_per_hour": [0, -1, "400", float("nan"), 1e9],
    "max_cost": [0, -1, "400", float("nan"), float("inf"), True],
    "max_restarts": [-1, 1.5, "3", None, True],
    "labels": [["a"], "a=b", 3],
    "name": ["Bert", "", "-a", "a-", "a" * 60, "a_b", 3],
    "launcher": ["mpirun", "", 3],
}
ENTRIES = ("script", "module", "command", "function")


def malformed(count=500, seed=20261121):
    """Pairs of a field and the keyword arguments of a spec that has something wrong there."""
    draw = random.Random(seed)
    for _ in range(count):
        field = draw.choice(list(WRONG))
        entry = {} if field in ENTRIES else {"script": "t.py"}
        yield field, {**entry, field: draw.choice(WRONG[field])}
