"""What ranks write beside the code is named at the end, or kept where that is asked for."""

import os
import shutil
import sys
import time

from gputrain.runtime.result import Outputs

WRITES = """
    import os
    os.makedirs("out", exist_ok=True)
    if os.environ["RANK"] == "0":
        open("out/ckpt.pt", "wb").write(b"x" * 5000)
        open("readme.txt", "a").write("changed")
        open(os.path.join(os.environ["GPUTRAIN_OUTPUT_DIR"], "model.pt"), "w").write("model")
"""


def start(cluster, *flags, script=WRITES):
    code, output = cluster.folder / "code", cluster.folder / "code" / "results"
    code.mkdir()
    output.mkdir()
    (code / "readme.txt").write_text("as it came")
    (code / "data.bin").write_text("as it came")
    path = shutil.move(cluster.script(script), code)
    time.sleep(0.02)  # beyond the kernel's clock tick
    words = ["sh", "-c", f"cd {code} && exec {sys.executable} {path}"]
    flags = [f"--code-dir={code}", f"--output-dir={output}", *flags]
    return cluster.run(*words, nproc=1, flags=["--launcher=none", *flags], env={"RANK": "0"}), output


def test_files_that_are_lost_are_named_the_largest_first(cluster):
    node, _ = start(cluster)
    (line,) = node.said("lost with this machine")
    assert "2 files, 5.02 kB, written beside the code: out/ckpt.pt, readme.txt;" in line
    assert "$GPUTRAIN_OUTPUT_DIR" in line


def test_files_that_are_asked_for_are_kept_with_the_results(cluster):
    node, output = start(cluster, "--keep-outputs=1")
    assert node.code == 0, node.out
    assert (output / "out" / "ckpt.pt").read_bytes() == b"x" * 5000
    assert (output / "readme.txt").read_text() == "as it camechanged"
    assert not (output / "data.bin").exists()
    assert len(node.said("kept in")) == 1


def test_where_the_code_stays_nothing_is_told(cluster):
    script = cluster.script("open('made.txt', 'w').write('made')")
    assert not cluster.run(script, nproc=1).said("beside the code")


def test_keeping_without_a_place_to_keep_is_refused(cluster):
    node = cluster.run(cluster.script("pass"), flags=["--keep-outputs=1"])
    assert (node.code, node.cause["kind"]) == (64, "environment")


def test_old_files_links_caches_and_folders_apart_are_no_outputs(tmp_path):
    (tmp_path / "old.txt").write_text("old")
    time.sleep(0.02)
    outputs = Outputs(str(tmp_path), apart=[str(tmp_path / "logs")])
    for name in ("logs/rank-0.log", "__pycache__/a.pyc", ".git/index", "deep/er/new.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("new")
    os.symlink("/etc/passwd", tmp_path / "link")
    copied = shutil.copy2(tmp_path / "old.txt", tmp_path / "copy.txt")
    os.utime(copied, (0, 0))
    assert outputs.find() == [("copy.txt", 3), ("deep/er/new.txt", 3)]
