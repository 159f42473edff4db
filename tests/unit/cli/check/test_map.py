"""`gputrain map`: an experiment from words."""

import signal
import subprocess
import sys
import time

from gputrain import Trainer


def test_ctrl_c_says_how_to_go_on(folder):
    (folder / "train.py").write_text("import time; time.sleep(600)")
    asked = [sys.executable, "-m", "gputrain", "map", "train.py", "--name", "long", "--grid", "lr=1"]
    watcher = subprocess.Popen(asked, cwd=folder, stderr=subprocess.PIPE, text=True)
    while not Trainer().jobs(name="long", state="running"):
        time.sleep(0.1)
    watcher.send_signal(signal.SIGINT)
    err = watcher.communicate(timeout=300)[1]
    Trainer().experiment("long").cancel()
    assert watcher.returncode == 130
    assert "gputrain map --name long" in err
