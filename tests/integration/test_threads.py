"""Many threads on one provider under the thread sanitizer, for ten seconds; the unit tests do it for one, without."""
import os
import subprocess

import pytest

from blackbox import program

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.mark.long
def test_threads_under_the_thread_sanitizer(tmp_path):
    build = tmp_path / "tsan"
    commands = [[program("meson"), "setup", "-Dpart=library", "-Dtests=enabled", "-Db_sanitize=thread", str(build), TOP],
                [program("ninja"), "-C", str(build), "tests/test-threads"], [str(build / "tests" / "test-threads")]]
    for command in commands:
        done = subprocess.run(command, env=dict(os.environ, CONFINE_TEST_SECONDS="10"), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=280, check=False)
        assert done.returncode == 0, done.stdout.decode()
    assert b"WARNING: ThreadSanitizer" not in done.stdout
