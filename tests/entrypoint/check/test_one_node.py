"""One node: what ranks are given, how their ends are told, what is left behind."""

import importlib.util
import json
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from gputrain.runtime.failures import explain
from gputrain.runtime.processes import Ending, Rank
from tests.each import each
from tests.entrypoint.nodes import alive

TORCHRUN = {
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK",
    "ROLE_NAME", "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_USE_AGENT_STORE",
    "TORCHELASTIC_ERROR_FILE", "TORCH_NCCL_ASYNC_ERROR_HANDLING", "OMP_NUM_THREADS",
}  # fmt: skip

SHOW_ENV = """
    import json, os
    with open(f"env-{os.environ.get('RANK', 'x')}.json", "w") as file:
        json.dump(dict(os.environ), file)
"""


def env_of(cluster, rank):
    return json.loads((cluster.folder / f"env-{rank}.json").read_text())


def test_ranks_get_every_variable_that_torchrun_gives(cluster):
    node = cluster.run(cluster.script(SHOW_ENV), env={"GPUTRAIN_JOB_ID": "bert-1"})
    assert node.code == 0, node.out
    first, second = env_of(cluster, 0), env_of(cluster, 1)
    assert set(first) >= TORCHRUN
    assert [first["LOCAL_RANK"], second["LOCAL_RANK"], second["RANK"], second["WORLD_SIZE"]] == [
        "0",
        "1",
        "1",
        "2",
    ]
    assert first["MASTER_PORT"] == second["MASTER_PORT"]
    assert first["TORCHELASTIC_RUN_ID"] == "bert-1"
    assert first["TORCHELASTIC_ERROR_FILE"] != second["TORCHELASTIC_ERROR_FILE"]


def test_the_names_are_those_that_torchrun_of_this_torch_sets():
    torch = importlib.util.find_spec("torch")
    if torch is None:
        pytest.skip("no torch here")
    path = Path(torch.origin).parent / "distributed/elastic/agent/server/local_elastic_agent.py"
    source = path.read_text()
    body = source.partition("worker_env = {")[2].partition("}\n")[0]
    names = set(re.findall(r'^ +"([A-Z_]+)": ', body, re.MULTILINE))
    assert len(names) >= 15
    assert names <= TORCHRUN


def test_threads_are_shared_out_unless_the_user_has_chosen(cluster):
    cluster.run(cluster.script(SHOW_ENV), nproc=1)
    cpus = len(os.sched_getaffinity(0))
    assert 1 <= int(env_of(cluster, 0)["OMP_NUM_THREADS"]) <= cpus
    cluster.run(cluster.script(SHOW_ENV), nproc=4 * cpus)
    assert env_of(cluster, 0)["OMP_NUM_THREADS"] == "1"
    cluster.run(cluster.script(SHOW_ENV), env={"OMP_NUM_THREADS": "7"})
    assert env_of(cluster, 0)["OMP_NUM_THREADS"] == "7"


@pytest.mark.parametrize(
    ("ending", "code", "kind"),
    [
        ("sys.exit(7)", 7, "exit"),
        ("sys.exit('no data')", 1, "exit"),
        ("sys.exit(10**30)", 255, "exit"),
        ("sys.exit(-1)", 255, "exit"),
        ("class Odd:\n    def __del__(self): raise ValueError('late')\nOdd()\nsys.exit(3)", 3, "exit"),
        ("os._exit(9)", 9, "exit"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", 139, "signal"),
        ("os.kill(os.getpid(), signal.SIGKILL)", 137, "signal"),
        ("os.abort()", 134, "signal"),
        ("raise KeyboardInterrupt", 130, "exception"),
        ("import torch_that_is_not_here", 1, "exception"),
        (
            "import ctypes\nctypes.CDLL('libgcc_s.so.1')\nwhile True: os.dup(1)",
            1,
            "exception",
        ),  # as torch does
    ],
)
def test_the_agent_exits_as_the_first_failing_rank_did(cluster, ending, code, kind):
    node = cluster.run(cluster.script(f"import os, sys, signal\n{ending}\n"), nproc=1)
    assert node.code == code, node.out
    assert node.cause["kind"] == kind
    assert node.cause["exit_code"] == code
    assert node.result["exit_code"] == code


def test_a_fatal_signal_shows_where_python_was(cluster):
    node = cluster.run(
        cluster.script("import os, signal\ndef deep():\n    os.kill(os.getpid(), signal.SIGSEGV)\ndeep()\n")
    )
    assert any("in deep" in line for line in node.cause["last_lines"])


def test_a_script_sees_itself_as_python_would_show_it(cluster):
    script = cluster.script("""
        import sys, os, json, __main__
        assert __name__ == "__main__" and __main__.__file__ == __file__, __file__
        assert vars(__main__) is globals()
        assert sys.path[0] == os.path.dirname(os.path.abspath(__file__)), sys.path
        assert sys.argv == ["train.py", "--name", "a b;$(c)"], sys.argv
        import beside
        import atexit
        atexit.register(lambda: print("at exit", __main__.answer, flush=True))
        answer = 42
        sys.stdout.write("no end of line")
    """)
    cluster.script("", name="beside.py")
    node = cluster.run(os.path.basename(script), "--name", "a b;$(c)", nproc=1)
    assert node.code == 0, node.out
    assert node.said("no end of lineat exit 42")


def test_a_module_runs_as_python_dash_m_runs_it(cluster):
    (cluster.folder / "pkg").mkdir()
    cluster.script("", name="pkg/__init__.py")
    cluster.script("X = 1", name="pkg/other.py")
    cluster.script("""
        import sys
        from .other import X
        print(__name__, __spec__.name, sys.argv[1:], sys.argv[0].endswith("train.py"))
    """, name="pkg/train.py")  # fmt: skip
    node = cluster.run("-m", "pkg.train", "--x", nproc=1)
    assert node.said("__main__ pkg.train ['--x'] True"), node.out


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_worker_processes_of_a_script_find_its_main_module(cluster, method):
    script = cluster.script(f"""
        import multiprocessing
        def double(number):
            return 2 * number
        if __name__ == "__main__":
            with multiprocessing.get_context("{method}").Pool(2) as pool:
                print("doubled", pool.map(double, [1, 2, 3]))
    """)
    node = cluster.run(script, nproc=1)
    assert node.said("doubled [2, 4, 6]"), node.out
    assert node.code == 0


@each(
    ("exception", "message", "kind"),
    [
        ("torch.OutOfMemoryError", "CUDA out of memory. Tried to allocate 2.00 GiB.", "gpu_out_of_memory"),
        ("RuntimeError", "CUDA error: out of memory\nCompile with TORCH_USE_CUDA_DSA", "gpu_out_of_memory"),
        ("RuntimeError", "MPS backend out of memory (MPS allocated: 5 GB)", "gpu_out_of_memory"),
        ("RuntimeError", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED", "gpu_out_of_memory"),
        ("JaxRuntimeError", "RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes", "gpu_out_of_memory"),
        ("ValueError", "a post titled CUDA out of memory", "exception"),
        ("RuntimeError", "the cache is out of memory", "exception"),
        ("MemoryError", "out of memory", "exception"),
    ],
)
def test_the_memory_of_a_gpu_is_told_apart(tmp_path, exception, message, kind):
    path = tmp_path / "error.json"
    path.write_text(json.dumps({"exception": exception, "message": message, "traceback": "in train"}))
    rank = Rank(0, 0, str(path))
    rank.end(Ending(1 << 8))
    cause = explain(rank, 0, ["a line"], oom_killed=False)
    assert (cause["kind"], cause["exception"], cause["traceback"]) == (kind, exception, "in train")
    assert message in cause["message"]


def test_a_failure_that_torchruns_record_wrote_is_read_too(tmp_path):
    path = tmp_path / "error.json"
    path.write_text(
        json.dumps({"message": {"message": "ValueError: bad", "extraInfo": {"py_callstack": "in f"}}})
    )
    rank = Rank(0, 0, str(path))
    rank.end(Ending(1 << 8))
    cause = explain(rank, 0, [], oom_killed=False)
    assert (cause["kind"], cause["exception"], cause["traceback"]) == ("exception", "ValueError", "in f")


def test_the_text_that_a_script_exits_with_is_why_it_failed(cluster):
    node = cluster.run(cluster.script("import sys; sys.exit('no data in /mnt')"), nproc=1)
    assert (node.code, node.cause["kind"], node.cause["message"]) == (1, "exit", "no data in /mnt")
    assert node.cause["traceback"] is None


def test_code_that_travelled_here_is_shown_by_its_path_where_it_came_from(cluster):
    (cluster.folder / "models").mkdir()
    (cluster.folder / "models" / "net.py").write_text("def build():\n    raise ValueError('no such net')\n")
    script = cluster.script("from models import net\nnet.build()\n")
    node = cluster.run(script, nproc=1, flags=[f"--code-dir={cluster.folder}"])
    assert 'File "train.py", line 2' in node.cause["traceback"]
    assert 'File "models/net.py", line 2, in build' in node.cause["traceback"]
    assert "bootstrap" not in node.cause["traceback"]


def test_a_command_runs_as_it_is(cluster):
    node = cluster.run(
        "sh", "-c", 'echo "$0|$1|rank=$RANK"; exit 3', "a b", "$(x)", flags=["--launcher=none"]
    )
    assert node.said("[0] a b|$(x)|rank="), node.out
    assert (node.code, node.cause["kind"]) == (3, "exit")
    assert len(node.result["ranks"]) == 1


def test_a_command_that_starts_its_own_ranks_learns_how_many(cluster):
    text = "echo $GPUTRAIN_NPROC_PER_NODE $GPUTRAIN_NUM_NODES $GPUTRAIN_NODE_RANK $GPUTRAIN_MASTER_ADDR"
    node = cluster.run("sh", "-c", text, nproc=4, flags=["--launcher=none"])
    assert node.said("[0] 4 1 0 127.0.0.1")
    node = cluster.run("sh", "-c", text, flags=["--launcher=none", "--nproc-per-node=auto"])
    assert node.said("[0] 1 1 0"), node.out


def test_a_launcher_that_raises_is_not_the_cause_of_what_its_child_raised(cluster):
    launcher = """
        import subprocess, sys
        code = subprocess.call([sys.executable, "-c", "raise KeyError('input_ids')"])
        print("[launcher] killing subprocess\\n" * 40, file=sys.stderr)
        raise subprocess.CalledProcessError(code, ["python", "train.py"])
    """
    node = cluster.run(sys.executable, cluster.script(launcher), flags=["--launcher=none"])
    assert (node.cause["message"], len(node.cause["last_lines"])) == ("KeyError: 'input_ids'", 30)


@pytest.mark.parametrize("target", [["nowhere.py"], ["no-such-program"]])
def test_a_target_that_is_not_there_is_named(cluster, target):
    node = cluster.run(*target)
    assert node.code == 64
    assert node.cause["kind"] == "environment"
    assert target[0] in node.cause["message"]


def test_nothing_is_left_when_the_agent_is_killed(cluster, until):
    script = cluster.script("""
        import os, time
        open(f"pid-{os.environ['RANK']}.new", "w").write(str(os.getpid()))
        os.rename(f"pid-{os.environ['RANK']}.new", f"pid-{os.environ['RANK']}")
        time.sleep(600)
    """)
    node = cluster.start(script)
    files = [cluster.folder / f"pid-{rank}" for rank in range(2)]
    until(lambda: all(file.exists() for file in files), "both ranks' start")
    pids = [int(file.read_text()) for file in files]
    node.signal(signal.SIGKILL)
    until(lambda: not any(alive(pid) for pid in pids), "the end of both ranks", within=5)


def test_what_a_rank_left_running_ends_with_the_node(cluster, until):
    script = cluster.script("""
        import subprocess, sys
        child = subprocess.Popen([sys.executable, "-c", "import os, time; os.setsid(); time.sleep(600)"])
        print("child", child.pid, flush=True)
    """)
    node = cluster.run(script, nproc=1)
    assert node.code == 0
    pid = int(node.said("child")[0].split()[-1])
    until(lambda: not alive(pid), "the end of the child", within=5)


def test_the_result_file_is_the_result_line(cluster):
    node = cluster.run(cluster.script("print(1)"), flags=["--result-dir", cluster.folder / "results"])
    with open(cluster.folder / "results" / "result-0.json") as file:
        assert json.load(file) == node.result
    assert os.listdir(cluster.folder / "results") == ["result-0.json"]


def test_a_result_that_cannot_be_written_does_not_change_the_verdict(cluster):
    node = cluster.run(cluster.script("print(1)"), nproc=1, flags=["--result-dir", "/proc/nowhere"])
    assert node.code == 0
    assert node.said("no result in /proc/nowhere")


def test_a_huge_error_still_makes_one_short_line(cluster):
    node = cluster.run(
        cluster.script("print('\\x01' * 5000)\nraise ValueError('\\u1234' * 1_000_000)"), nproc=1
    )
    assert len(node.lines[-1]) < 16_000
    assert node.cause["exception"] == "ValueError"
