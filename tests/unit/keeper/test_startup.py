"""The startup script's last word."""

import subprocess
import sys


def test_a_system_that_goes_down_already_is_not_kept_waiting(tmp_path):
    (tmp_path / "poweroff").write_text(f"#!/bin/sh\necho said >> {tmp_path}/said\n")
    (tmp_path / "poweroff").chmod(0o755)
    code = "from gputrain.keeper.startup import power_off; power_off(goes_down=True)"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PATH": str(tmp_path)})
    assert (tmp_path / "said").read_text() == "said\n"
