"""A training script that closes nothing: each of its files must be whole at its end, however it ends.

``left_open.py FOLDER gloo|alone succeeds|fails|exits``
"""

import atexit
import csv
import ctypes
import gzip
import multiprocessing
import os
import sys
import tarfile
import threading
import time
import zipfile

import held_elsewhere

ROWS = 2000
folder = os.path.join(sys.argv[1], os.environ.get("RANK", "0"))
os.makedirs(folder, exist_ok=True)


def at(name):
    return os.path.join(folder, name)


def write_rows(file, count):
    writer = csv.writer(file)
    for step in range(count):
        writer.writerow([step, 1.5 * step])


class Tee:
    """As everybody copies it: what is printed goes into a file, too."""

    def __init__(self, path):
        self.terminal, self.log = sys.stdout, open(path, "w")  # noqa: SIM115

    def write(self, text):
        self.terminal.write(text)
        self.log.write(text)

    def flush(self):
        self.terminal.flush()


class Late:
    """Writes its last word when it is deleted."""

    def __init__(self, path):
        self.path = path

    def __del__(self, opens=open):
        with opens(self.path, "w") as file:
            file.write("deleted")


def late_child(path):
    time.sleep(0.5)
    with open(path, "w") as file:
        file.write("child")


def late_thread(file):
    time.sleep(0.3)
    file.write("thread")


def main():
    small, big = open(at("small.csv"), "w", newline=""), open(at("big.csv"), "w", newline="")  # noqa: SIM115
    write_rows(small, 3)
    write_rows(big, ROWS)
    packed = gzip.open(at("text.gz"), "wt")  # noqa: SIM115
    packed.write("packed\n" * ROWS)
    archive = zipfile.ZipFile(at("files.zip"), "w")
    archive.writestr("inside.txt", "inside")
    tape = tarfile.open(at("files.tar"), "w")  # noqa: SIM115
    tape.add(held_elsewhere.__file__, "held.py")
    looped = {"file": open(at("looped.txt"), "w")}  # noqa: SIM115
    looped["self"] = looped
    looped["file"].write("looped\n" * ROWS)
    libc = ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    stream = ctypes.c_void_p(libc.fopen(at("native.txt").encode(), b"w"))
    libc.fputs(b"native", stream)
    return small, big, packed, archive, tape, Late(at("deleted.txt"))


def with_libraries():
    import h5py
    import torch
    from torch.utils.data import DataLoader
    from torch.utils.tensorboard import SummaryWriter

    numbers = h5py.File(at("numbers.h5"), "w")
    numbers["losses"] = list(range(ROWS))
    events = SummaryWriter(at("events"))
    for step in range(50):
        events.add_scalar("loss", 1.0 / (step + 1), step)
    batches = iter(DataLoader(list(range(64)), batch_size=2, num_workers=1))
    next(batches)
    torch.distributed.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
    for _ in range(10):
        model(torch.ones(2, 4)).sum().backward()
    if sys.argv[3] == "destroys":
        torch.distributed.destroy_process_group()
    return numbers, events, batches, model


sys.stdout = Tee(at("tee.txt"))
print("told")
held = main()
library = with_libraries() if sys.argv[2] == "gloo" else None
held_elsewhere.keep(open(at("elsewhere.txt"), "w"))  # noqa: SIM115
by_thread = open(at("thread.txt"), "w")  # noqa: SIM115
threading.Thread(target=late_thread, args=[by_thread]).start()
multiprocessing.get_context("fork").Process(target=late_child, args=[at("child.txt")]).start()
at_exit = open(at("atexit.txt"), "w")  # noqa: SIM115
atexit.register(at_exit.write, "atexit")
history = open(at("history.txt"), "w")  # noqa: SIM115
history.write("nan at step 7")
if sys.argv[3] == "fails":
    raise ValueError("the loss is nan")
if sys.argv[3] == "exits":
    sys.exit("the loss is nan")
