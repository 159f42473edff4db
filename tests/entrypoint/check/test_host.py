"""Facts read from the kernel's files, and Google's network profiles read from their scripts."""

import os
from pathlib import Path

import pytest

from gputrain.runtime import host, launcher
from tests.each import each


@each(
    ("visible", "count"),
    [("0,1,2", 3), ("", 0), ("-1", 0), ("0,-1,2", 1), ("GPU-aa,GPU-bb", 2), ("MIG-1", 1), ("NoDevFiles", 0)],
)
def test_gpus_are_those_that_cuda_would_show(visible, count):
    assert host.gpu_count({"CUDA_VISIBLE_DEVICES": visible}) == count


def test_a_folder_whose_disk_is_full_is_named(tmp_path, monkeypatch):
    assert host.full_disk([str(tmp_path), "/nowhere"]) == ""
    monkeypatch.setattr(host, "FULL_BYTES", 1 << 80)
    assert host.full_disk(["/nowhere", str(tmp_path)]) == str(tmp_path)


def test_memory_kills_are_read_from_this_container_first(tmp_path):
    assert host.oom_kills(str(tmp_path), str(tmp_path)) is None
    (tmp_path / "cg/job").mkdir(parents=True)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/vmstat").write_text("pgfault 12\noom_kill 9\n")
    assert host.oom_kills(str(tmp_path / "cg"), str(tmp_path / "proc")) == 9
    (tmp_path / "cg/memory.events").write_text("low 0\noom 3\noom_kill 2\n")
    assert host.oom_kills(str(tmp_path / "cg"), str(tmp_path / "proc")) == 2
    (tmp_path / "proc/self/cgroup").write_text("0::/job\n")
    (tmp_path / "cg/job/memory.events").write_text("oom_kill 1\noom_group_kill 0\n")
    assert host.oom_kills(str(tmp_path / "cg"), str(tmp_path / "proc")) == 1
    (tmp_path / "cg/memory/a").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("4:memory:/a\n2:cpu:/\n")
    (tmp_path / "cg/memory/a/memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 5\n")
    assert host.oom_kills(str(tmp_path / "cg"), str(tmp_path / "proc")) == 5


def memory_cgroup():
    """A folder in which a memory limit can be set, or None."""
    groups = [line.split(":") for line in Path("/proc/self/cgroup").read_text().splitlines()]
    own = next((path for _, controllers, path in groups if controllers == "memory"), "/none")
    path = f"/sys/fs/cgroup/memory{own}/gputrain-test-{os.getpid()}"
    try:
        os.mkdir(path)
        with open(f"{path}/memory.limit_in_bytes", "w") as file:
            file.write(str(200 << 20))
    except OSError:
        return None
    return path


def test_a_rank_that_the_kernel_killed_for_memory_is_told_so(cluster):
    group = memory_cgroup()
    if group is None:
        pytest.skip("no memory limit can be set here")
    try:
        script = cluster.script("""
            import os, time
            if os.environ["RANK"] == "1":
                kept = [bytearray(os.urandom(1 << 20)) * 10 for _ in range(60)]
            time.sleep(60)
        """)
        join = f'echo $$ > {group}/cgroup.procs && exec "$0" "$@"'
        node = cluster.run(script, python=("sh", "-c", join, os.sys.executable))
        assert (node.code, node.cause["kind"], node.cause["rank"]) == (137, "out_of_memory", 1), node.out
        assert "out of memory" in node.cause["message"]
    finally:
        os.rmdir(group)


def test_a_small_shm_is_named_with_what_to_do(tmp_path):
    assert host.shared_memory_advice("/proc").startswith("/proc has only 0 MiB")
    assert "--ipc=host" in host.shared_memory_advice("/proc")
    assert "cannot be read" in host.shared_memory_advice(str(tmp_path / "none"))


def test_a_network_profile_is_sourced_and_the_users_own_values_stay(tmp_path):
    script = tmp_path / "set nccl env.sh"
    script.write_text(
        "echo noise\n"
        "export NCCL_NET=gIB NCCL_CROSS_NIC=0 OTHER=x\n"
        "export NCCL_NOTE='two\nlines'\n"
        'export LD_LIBRARY_PATH="/usr/local/gib/lib64:$LD_LIBRARY_PATH"\n'
    )
    user = {**os.environ, "NCCL_INIT_SCRIPT": str(script), "NCCL_CROSS_NIC": "1", "LD_LIBRARY_PATH": "/mine"}
    profile = launcher.network_profile(user)
    assert profile == {
        "NCCL_NET": "gIB",
        "NCCL_NOTE": "two\nlines",
        "LD_LIBRARY_PATH": "/usr/local/gib/lib64:/mine",
    }


def test_a_profile_reaches_the_ranks(cluster):
    (cluster.folder / "profile.sh").write_text("export NCCL_NET=gIB\n")
    script = cluster.script("import os; print('net', os.environ['NCCL_NET'])")
    node = cluster.run(script, env={"NCCL_INIT_SCRIPT": str(cluster.folder / "profile.sh")})
    assert len(node.said("net gIB")) == 2


@pytest.mark.parametrize("text", ["exit 3\n", "set -e\nfalse\n", ""])
def test_a_profile_that_fails_changes_nothing(tmp_path, text):
    (tmp_path / "profile.sh").write_text(text)
    own = {"LD_LIBRARY_PATH": "/usr/local/nvidia/lib64", "NCCL_INIT_SCRIPT": str(tmp_path / "profile.sh")}
    assert launcher.network_profile({**os.environ, **own}) == {}
