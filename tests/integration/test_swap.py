"""The workspace swapped while two thousand runs start; the unit tests do it with sixty."""
import os
import subprocess

import pytest

from blackbox import program

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.mark.long
def test_two_thousand_runs_while_the_workspace_is_swapped(tmp_path):
    build = tmp_path / "build"
    commands = [[program("meson"), "setup", "-Dpart=library", "-Dtests=enabled", str(build), TOP],
                [program("ninja"), "-C", str(build), "tests/test-swap"], [str(build / "tests" / "test-swap")]]
    for command in commands:
        done = subprocess.run(command, env=dict(os.environ, CONFINE_SWAP_RUNS="2000"), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600, check=False)
        assert done.returncode == 0, done.stdout.decode()
