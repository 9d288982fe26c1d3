"""A shell with job control on a pseudo-terminal behaves with `confine run` as without."""
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest

from blackbox import program, state_of, wait_until

PROMPT = "READY> "


class Terminal:
    """An interactive bash of somebody's on a terminal of its own."""

    def __init__(self, box):
        self.box, self.text, self.seen = box, "", 0
        self.master, slave = pty.openpty()
        box.who.own(os.ttyname(slave))
        self.resize(24, 80)

        def prepare():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            box.who.become()

        environment = box.environment({"PS1": PROMPT, "PS2": "", "TERM": "dumb", "HISTFILE": "/dev/null"})
        self.shell = subprocess.Popen([program("bash"), "--norc", "--noprofile", "--noediting", "-i"], stdin=slave,
                                      stdout=slave, stderr=slave, cwd=box.ws, env=environment, preexec_fn=prepare)
        os.close(slave)
        self.expect(re.escape(PROMPT))
        self.run("stty -echo")

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def send(self, text):
        os.write(self.master, text.encode())

    def expect(self, pattern, seconds=15):
        """Waits for pattern in what has come since the last match; returns the match."""
        deadline = time.monotonic() + seconds
        while True:
            match = re.compile(pattern).search(self.text, self.seen)
            if match:
                self.seen = match.end()
                return match
            if time.monotonic() > deadline:
                pytest.fail(f"no {pattern!r} within {seconds} s after {self.text[self.seen:]!r}")
            if select.select([self.master], [], [], 0.05)[0]:
                try:
                    self.text += os.read(self.master, 65536).decode(errors="replace")
                except OSError:
                    pytest.fail(f"the shell has gone: {self.text[self.seen:]!r}")

    def run(self, line):
        """One line to its prompt; returns what it printed."""
        start = self.seen
        self.send(line + "\n")
        self.expect(re.escape(PROMPT))
        return self.text[start:self.seen]

    def status(self):
        """Exit status of the last command."""
        self.send("echo status=$?.\n")
        code = int(self.expect(r"status=(\d+)\.").group(1))
        self.expect(re.escape(PROMPT))
        return code

    def settings(self):
        return termios.tcgetattr(self.master)

    def foreground(self):
        return os.tcgetpgrp(self.master)

    def close(self):
        self.shell.kill()
        self.shell.wait()
        os.close(self.master)


@pytest.fixture
def terminal(box):
    terminal = Terminal(box)
    yield terminal
    box.mark.kill()
    terminal.close()


def line(box, *words, options=""):
    quoted = " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)
    return f"{box.programs.confine} run --runner {box.runner} {options} -- {quoted}"


def test_interrupt(terminal, box):
    terminal.send(line(box, "sleep", "300") + "\n")
    box.mark.wait_for("sleep")
    terminal.send("\x03")
    terminal.expect(re.escape(PROMPT))
    assert terminal.status() == 130
    wait_until(lambda: not box.mark.processes("sleep"), 2, "the end of sleep")


def test_interrupt_is_recorded_as_the_commands_death(terminal, box):
    report = box.reports / "r"
    terminal.send(line(box, "sleep", "300", options=f"--report {report}") + "\n")
    box.mark.wait_for("sleep")
    terminal.send("\x03")
    terminal.expect(re.escape(PROMPT))
    record = json.loads(report.read_text())
    assert (record["signal"], record["started"], record["runnerFailure"]) == ("SIGINT", True, None)


def test_interrupt_that_the_command_handles(terminal, box):
    script = "trap 'echo caught; exit 5' INT; echo waiting; while :; do sleep 0.05; done"
    terminal.send(line(box, "sh", "-c", script) + "\n")
    terminal.expect("waiting")
    terminal.send("\x03")
    terminal.expect("caught")
    terminal.expect(re.escape(PROMPT))
    assert terminal.status() == 5


def test_interrupt_once_per_key(terminal, box):
    """The terminal signals the whole job, confine included: the command must not get it twice."""
    script = ("import signal, time\n"
              "count = 0\n"
              "def got(*_):\n"
              "    global count\n"
              "    count += 1\n"
              "signal.signal(signal.SIGINT, got)\n"
              "print('waiting', flush=True)\n"
              "while not count: time.sleep(0.01)\n"
              "time.sleep(0.3)\n"
              "print('got', count, 'times', flush=True)\n")
    (box.ws / "count.py").write_text(script)
    terminal.send(line(box, "/usr/bin/python3", "count.py") + "\n")
    terminal.expect("waiting")
    terminal.send("\x03")
    assert terminal.expect(r"got (\d+) times").group(1) == "1"


def test_quit(terminal, box):
    terminal.run("ulimit -c 0")
    terminal.send(line(box, "sleep", "300") + "\n")
    box.mark.wait_for("sleep")
    terminal.send("\x1c")
    terminal.expect(re.escape(PROMPT))
    wait_until(lambda: not box.mark.processes("sleep"), 2, "the end of sleep")
    assert terminal.status() == 131


def test_stop_and_foreground(terminal, box):
    terminal.send(line(box, "sh", "-c", 'echo go; read word; echo "got-$word"; exit 4') + "\n")
    terminal.expect("go")
    terminal.send("\x1a")
    terminal.expect("Stopped")
    terminal.expect(re.escape(PROMPT))
    assert terminal.status() == 148
    assert "Stopped" in terminal.run("jobs")
    assert "alive" in terminal.run("echo alive")
    terminal.send("fg\n")
    time.sleep(0.2)
    terminal.send("hello\n")
    terminal.expect("got-hello")
    terminal.expect(re.escape(PROMPT))
    assert terminal.status() == 4


def test_stop_and_foreground_again_and_again(terminal, box):
    terminal.send(line(box, "sleep", "300") + "\n")
    sleep = box.mark.wait_for("sleep")
    for _ in range(5):
        wait_until(lambda: state_of(sleep) == "S", 5, "sleep to run")
        terminal.send("\x1a")
        terminal.expect("Stopped")
        terminal.expect(re.escape(PROMPT))
        assert state_of(sleep) == "T"
        terminal.send("fg\n")
    wait_until(lambda: state_of(sleep) == "S", 5, "sleep to run")
    terminal.send("\x03")
    terminal.expect(re.escape(PROMPT))
    assert terminal.status() == 130


def test_a_stop_that_is_over_when_confine_hears_of_it(box):
    """As when the terminal stops the job again while confine is about to block the signal."""
    if box.runner == "bwrap":
        pytest.skip("of a command inside another launcher there is no telling whether it still is stopped")
    process = box.spawn(box.run_words(["sleep", "300"]))
    sleep = box.mark.wait_for("sleep")
    process.send_signal(signal.SIGSTOP)
    os.kill(sleep, signal.SIGSTOP)
    wait_until(lambda: state_of(process.pid) == "T" and state_of(sleep) == "T", 5, "both to stop")
    time.sleep(0.2)  # the monitor has told
    os.kill(sleep, signal.SIGCONT)
    process.send_signal(signal.SIGCONT)
    time.sleep(0.3)
    assert (state_of(process.pid), state_of(sleep)) == ("S", "S")
    process.terminate()
    process.communicate(timeout=20)
    assert process.returncode == 128 + signal.SIGTERM


def test_stop_and_background(terminal, box):
    terminal.send(line(box, "sh", "-c", "echo go; sleep 0.7; echo finished >done; exit 3") + "\n")
    terminal.expect("go")
    box.mark.wait_for("sleep")
    terminal.send("\x1a")
    terminal.expect("Stopped")
    terminal.expect(re.escape(PROMPT))
    time.sleep(0.9)
    assert not (box.ws / "done").exists()
    terminal.run("bg")
    assert "alive" in terminal.run("echo alive")
    wait_until((box.ws / "done").exists, 10, "the job to finish in the background")
    terminal.run("wait")
    assert "Stopped" not in terminal.run("jobs")


def test_a_stopped_job_that_is_killed(terminal, box):
    terminal.send(line(box, "sleep", "300") + "\n")
    sleep = box.mark.wait_for("sleep")
    terminal.send("\x1a")
    terminal.expect("Stopped")
    terminal.expect(re.escape(PROMPT))
    os.kill(sleep, signal.SIGKILL)
    wait_until(lambda: not box.mark.processes("sleep"), 5, "the end of sleep")
    terminal.run("wait; sleep 0.3")
    assert "Stopped" not in terminal.run("jobs")


def test_a_command_that_ignores_the_stop_key(terminal, box):
    terminal.send(line(box, "sh", "-c", "trap '' TSTP; echo go; sleep 1; echo finished; exit 6") + "\n")
    terminal.expect("go")
    terminal.send("\x1a")
    terminal.expect("finished")
    terminal.expect(re.escape(PROMPT))
    assert terminal.status() == 6


def test_background_does_not_take_the_terminal(terminal, box):
    terminal.run(line(box, "sleep", "300") + " &")
    box.mark.wait_for("sleep")
    for i in range(3):
        assert f"alive-{i}" in terminal.run(f"echo alive-$(({i}))")
    assert terminal.foreground() == terminal.shell.pid
    terminal.run("kill %1; wait")
    wait_until(lambda: not box.mark.processes("sleep"), 5, "the end of sleep")


def test_background_that_reads_the_terminal_is_stopped(terminal, box):
    terminal.send(line(box, "cat") + " &\n")
    terminal.expect(re.escape(PROMPT))
    cat = box.mark.wait_for("cat")
    wait_until(lambda: state_of(cat) == "T", 5, "cat to be stopped")
    time.sleep(0.2)
    assert "Stopped" in terminal.run("jobs")
    terminal.send("fg\n")
    wait_until(lambda: state_of(cat) == "S", 5, "cat to run")
    terminal.send("typed\n")
    terminal.expect("typed")
    terminal.send("\x04")
    terminal.expect(re.escape(PROMPT))
    assert terminal.status() == 0


def test_the_window_size_reaches_the_command(terminal, box):
    script = ("import os, signal, sys, time\n"
              "def show(*_): os.write(1, b'size %d %d\\n' % os.get_terminal_size())\n"
              "signal.signal(signal.SIGWINCH, show)\n"
              "show()\n"
              "sys.stdin.readline()\n")
    (box.ws / "size.py").write_text(script)
    terminal.send(line(box, "/usr/bin/python3", "size.py") + "\n")
    terminal.expect("size 80 24")
    terminal.resize(50, 132)
    terminal.expect("size 132 50")
    terminal.send("\n")
    terminal.expect(re.escape(PROMPT))


def test_the_command_is_on_the_terminal(terminal, box):
    out = terminal.run(line(box, "sh", "-c", "test -t 0 -a -t 1 -a -t 2 && tty && echo on >/dev/tty"))
    assert "/dev/" in out and "not a tty" not in out
    assert re.search(r"^on\r?$", out, re.M)


def test_settings_are_restored(terminal, box):
    before = terminal.settings()
    terminal.send(line(box, "sh", "-c", "stty raw -echo -isig min 0; stty -a >state; exit 3") + "\n")
    terminal.expect(re.escape(PROMPT))
    assert "-icanon" in (box.ws / "state").read_text()
    assert terminal.settings() == before
    assert terminal.status() == 3


def test_settings_are_restored_after_a_timeout(terminal, box):
    before = terminal.settings()
    terminal.send(line(box, "sh", "-c", "stty raw -echo; sleep 300", options="--timeout 0.5") + "\n")
    terminal.expect(re.escape(PROMPT))
    assert terminal.settings() == before
    assert terminal.status() == 124


def test_settings_are_the_shells_while_the_job_is_stopped(terminal, box):
    terminal.send(line(box, "sh", "-c", "stty -echo -icanon; kill -TSTP 0; stty sane; exit 2") + "\n")
    terminal.expect("Stopped")
    terminal.expect(re.escape(PROMPT))
    assert "alive" in terminal.run("echo alive")
    terminal.send("fg\n")
    terminal.expect(re.escape(PROMPT))
    assert terminal.status() == 2


def test_an_interactive_shell_inside(terminal, box):
    inner = line(box, "bash", "--norc", "--noprofile", "--noediting", "-i")
    terminal.send(f"PS1='INNER> ' {inner}\n")
    terminal.expect("INNER> ")
    terminal.send("sleep 300\n")
    box.mark.wait_for("sleep")
    terminal.send("\x1a")
    terminal.expect("Stopped")
    terminal.send("jobs\n")
    terminal.expect("sleep 300")
    terminal.send("fg\n")
    time.sleep(0.3)
    terminal.send("\x03")
    terminal.expect("INNER> ")
    terminal.send("echo rc-$?\n")
    terminal.expect("rc-130")
    terminal.send("exit 7\n")
    terminal.expect(re.escape(PROMPT))
    assert terminal.status() == 7
    assert terminal.foreground() == terminal.shell.pid


def test_the_terminal_comes_back_from_an_inner_shell_that_is_killed(terminal, box):
    terminal.send(line(box, "bash", "--norc", "--noprofile", "--noediting", "-i", options="--timeout 1") + "\n")
    terminal.expect(re.escape(PROMPT))
    terminal.send("sleep 300\n")
    terminal.expect(re.escape(PROMPT))
    assert terminal.status() == 124
    assert "alive" in terminal.run("echo alive")
    assert terminal.foreground() == terminal.shell.pid


def test_hanging_up_ends_the_tree(terminal, box):
    terminal.send(line(box, "sh", "-c", "sleep 300 & sleep 300") + "\n")
    box.mark.wait_for("sleep")
    terminal.shell.kill()
    terminal.shell.wait()
    os.close(terminal.master)
    terminal.master = os.open("/dev/null", os.O_RDONLY)
    box.mark.wait_gone(3)


def test_a_pipeline_is_one_job(terminal, box):
    terminal.send(line(box, "sh", "-c", "echo go >&2; sleep 300") + " | cat\n")
    terminal.expect("go")
    box.mark.wait_for("sleep")
    terminal.send("\x1a")
    terminal.expect("Stopped")
    terminal.expect(re.escape(PROMPT))
    terminal.send("fg\n")
    time.sleep(0.2)
    terminal.send("\x03")
    terminal.expect(re.escape(PROMPT))
    assert terminal.status() == 130
