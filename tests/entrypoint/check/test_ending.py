"""How a rank ends: as under plain Python, and a finished run is not aborted by gloo's threads."""

import gzip

import pytest

from tests.each import each

LEAVES_OPEN = """
    import atexit, gzip, sys, threading, time
    text, packed, threads = open("text.txt", "w"), gzip.open("text.gz", "wt"), open("thread.txt", "w")
    text.write("text"), packed.write("packed" * 1000)
    threading.Thread(target=lambda: (time.sleep(0.2), threads.write("thread"))).start()
    atexit.register(text.write, " at exit")
    {ending}
"""
IN_FLIGHT = """
    import torch, torch.distributed as dist
    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
    history = open(f"history-{{dist.get_rank()}}.txt", "w")
    for step in range(3):
        model(torch.randn(8, 64)).sum().backward()
        works = [dist.all_reduce(torch.ones(1000), async_op=True) for _ in range(64)]
        history.write(f"{{step}} ")
    {ending}
"""


@each(("ending", "code"), [("", 0), ("raise ValueError('the loss is nan')", 1), ("sys.exit('no data')", 1)])
def test_files_that_a_script_left_open_are_whole(cluster, ending, code):
    node = cluster.run(cluster.script(LEAVES_OPEN.format(ending=ending)), nproc=1)
    assert node.code == code, node.out
    assert (cluster.folder / "text.txt").read_text() == "text at exit"
    assert (cluster.folder / "thread.txt").read_text() == "thread"
    assert gzip.decompress((cluster.folder / "text.gz").read_bytes()) == b"packed" * 1000


@pytest.mark.parametrize("nproc", [4, pytest.param(8, marks=pytest.mark.soak)])
def test_a_finished_run_with_collectives_in_flight_ends_with_0_and_whole_files(cluster, nproc):
    """Without a destroyed process group about half of such ranks abort (torch 2.13)."""
    node = cluster.run(cluster.script(IN_FLIGHT.format(ending="")), nproc=nproc)
    assert node.code == 0, node.out
    for rank in range(nproc):
        assert (cluster.folder / f"history-{rank}.txt").read_text() == "0 1 2 "


def test_a_rank_that_raised_is_told_so_whatever_its_exit_comes_to(cluster):
    raises = "if dist.get_rank() == 1:\n        raise ValueError('bad batch')\n    works[-1].wait()"
    node = cluster.run(cluster.script(IN_FLIGHT.format(ending=raises)), nproc=2)
    assert (node.code, node.cause["rank"], node.cause["message"]) == (1, 1, "ValueError: bad batch"), node.out
    aborts = "import atexit, os\natexit.register(os.abort)\nraise ValueError('x')"
    node = cluster.run(cluster.script(aborts), nproc=1)
    assert (node.code, node.cause["kind"]) == (1, "exception"), node.out


CRASHES = """
    import ctypes, sys
    ctypes.pythonapi.Py_AtExit(ctypes.cast(ctypes.CDLL(None).abort, ctypes.c_void_p))
    sys.exit({code})
"""


@each(("code", "state"), [(0, "done"), (75, "stopped"), (3, "failed")])
def test_a_crash_of_the_interpreters_exit_does_not_change_how_the_script_ended(cluster, code, state):
    node = cluster.run(cluster.script(CRASHES.format(code=code)), nproc=1)
    assert (node.code, node.result["state"]) == (code, state), node.out
    assert node.said(f"SIGABRT ended the exit of rank 0: its script had ended with {code}, which counts")


@each("stuck", [True, False])
def test_a_failed_rank_waits_for_its_threads_but_not_without_end(cluster, stuck):
    script = cluster.script(f"""
        import queue, threading
        threading.Thread(target=queue.Queue().get, daemon={not stuck}).start()
        raise ValueError("the loss is nan")
    """)
    node = cluster.start(script, nproc=1).wait(60)
    assert (node.code, node.cause["message"]) == (1, "ValueError: the loss is nan"), node.out
    assert bool(node.said("in get")) == stuck
