"""Shells, job control and full-screen programs work inside as they do outside."""
import fcntl
import os
import signal
import struct
import termios
import time

import pytest

from blackbox import program

SHELLS = {
    "bash": ["bash", "--noprofile", "--norc", "-i"],
    "dash": ["dash", "-i"],
    "zsh": ["zsh", "-f", "-i", "+Z"],
    "fish": ["fish", "--no-config", "-i"],
}
SCRIPT = r"""
set -e
echo "$0" "$#" "$@" | tr a-z A-Z
(exit 3) || echo "status $?"
f() { cat; }
echo piped | f | { read -r line; echo "got $line"; }
cat <<END
here $((6 * 7)) $(echo sub)
END
trap 'echo at the end' EXIT
trap 'echo usr' USR1; kill -USR1 $$
sleep 0.05 & wait $!; echo "waited $?"
sh -c 'kill -TERM $$' || echo "killed $?"
sh -c 'exit 143' || echo "left $?"
for i in 1 2 3; do (echo $i >f$i; chmod 60$i f$i) & done; wait; cat f1 f2 f3; ls -l f1 f2 f3 | cut -c1-10
exec 5>out; echo five >&5; exec 5>&-; cat out; [ -r out ] && umask 077 && : >private; echo * | tr ' ' '\n'
[ -n "$ZSH_VERSION" ] || set -m; sleep 0.01 & wait; echo lines | while read -r x; do echo "$x"; done
yes | head -1; printf 'a\nb' | wc -l; test -t 0 || echo no terminal
"""


@pytest.mark.parametrize("shell", ["bash", "dash", "zsh"])
def test_scripts(bench, shell):
    bench.give("script", SCRIPT)
    text = bench.same(shell, "script", "a b", needs=(shell,))
    assert "killed 143" in text and "left 143" in text and "at the end" in text


def test_scripts_of_fish(bench):
    bench.give("script", "for i in (seq 3); echo $i >f$i; end; cat f*; false; or echo status $status\n"
                         "sh -c 'kill -TERM $fish_pid$$'; echo $status; string upper a | read x; echo $x; count (psub <f1 | cat)\n"
                         "sleep 0.05 & wait; cat (echo sub | psub); begin; echo b; end >out; exit 4\n")
    bench.same("fish", "--no-config", "script", needs=("fish",), status=4)


def drive(terminal, shell):
    """What a person does at a prompt; whatever the shell says of it, the marks must come."""
    fish = shell == "fish"
    status = "$status" if fish else "$?"
    terminal.send("echo rea'dy'\n")
    terminal.expect("ready\r\n")
    terminal.hand_over("sleep 300\n")
    press(terminal, "\x03")
    terminal.send(f"echo 'inter'rupted {status}.\n")
    terminal.expect("interrupted 130.")
    terminal.hand_over("cat\n")
    press(terminal, "\x1a")
    terminal.send("jobs; echo jo'bs'.\n")
    terminal.expect("cat")
    terminal.expect("jobs.\r\n")
    terminal.hand_over("fg\n" if fish else "fg %1\n")
    terminal.send("typed\n")
    terminal.expect("typed\r\ntyped\r\n")
    press(terminal, "\x04")
    terminal.send("sleep 300 &\n")
    terminal.send("stty size; echo si'ze'.\n")
    terminal.expect("size.\r\n")
    terminal.send("kill -KILL (jobs -p); echo ki'lled'\n" if fish else "kill -KILL $!; wait; echo ki'lled'\n")
    terminal.expect("killed\r\n")
    terminal.send("echo text | cat >made; exit 7\n")


def press(terminal, key, seconds=20):
    """A key that ends or stops the job, until the shell has the terminal again. A shell's child that has not become
    the job yet may swallow it, so it is pressed as often as a person would."""
    deadline = again = time.monotonic()
    while os.tcgetpgrp(terminal.fd) != terminal.shell:
        now = time.monotonic()
        if now > deadline + seconds:
            pytest.fail(f"{terminal.side}: the shell does not come back: {terminal.seen!r}")
        if now > again:
            terminal.send(key)
            again = now + 1
        time.sleep(0.005)


@pytest.mark.parametrize("shell", list(SHELLS))
def test_at_a_terminal(bench, shell):
    program(shell)
    for side in ("outside", "inside"):
        terminal = bench.terminal(side, *SHELLS[shell])
        fcntl.ioctl(terminal.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 90, 0, 0))
        terminal.send("echo fir'st'\n")
        terminal.expect("first\r\n")
        time.sleep(0.1)
        terminal.shell = os.tcgetpgrp(terminal.fd)
        drive(terminal, shell)
        _, status = terminal.end()
        assert status == 7, side
    for side in ("outside", "inside"):
        assert (bench.places[side] / "made").read_text() == "text\n"


def screen(bench, side, words, keys, rows=24, columns=80):
    """Everything a full-screen program draws while keys are typed, each after the text before it has come."""
    terminal = bench.terminal(side, "env", "TERM=xterm", *words)
    fcntl.ioctl(terminal.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    for text, key in keys:
        terminal.expect(text)
        time.sleep(0.05)
        terminal.send(key)
    before = termios.tcgetattr(terminal.fd)
    _, status = terminal.end()
    return status, before[3] & termios.ECHO


def both(bench, words, keys):
    program(words[0])
    outside, inside = (screen(bench, side, words, keys) for side in ("outside", "inside"))
    assert inside[0] == outside[0] == 0
    assert bench.tree("inside") == bench.tree("outside")


def test_less(bench):
    bench.give("text", "".join(f"line {i}\n" for i in range(500)))
    both(bench, ["less", "text"], [("line 1", "G"), ("line 499", "?line 250\n"), ("line 250", "q")])


def test_an_editor(bench):
    bench.give("text", "old\n")
    both(bench, ["vim.tiny", "-u", "NONE", "-n", "text"], [("old", "ccnew\x1b:wq\r")])
    assert (bench.places["inside"] / "text").read_text() == "new\n"


def test_top(bench):
    """It reads all of /proc and draws until it is told to end."""
    both(bench, ["top", "-d", "1"], [("PID", "q")])


def test_the_window_changes(bench):
    """The size arrives at a program that draws."""
    for side in ("outside", "inside"):
        terminal = bench.terminal(side, "bash", "--norc", "--noprofile", "-c",
                                  "trap 'stty size; exit 5' WINCH; echo waiting; while :; do sleep 0.02; done")
        terminal.expect("waiting")
        fcntl.ioctl(terminal.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 44, 133, 0, 0))
        terminal.expect("44 133")
        assert terminal.end()[1] == 5


def test_the_terminal_goes(bench):
    """A hang-up ends what leads the session, though nothing reads the terminal."""
    for side in ("outside", "inside"):
        terminal = bench.terminal(side, "sh", "-c", "echo started; sleep 300; :")
        terminal.expect("started")
        os.close(terminal.fd)
        deadline = time.monotonic() + 10
        while os.waitpid(terminal.pid, os.WNOHANG)[0] == 0:
            if time.monotonic() > deadline:
                os.kill(terminal.pid, signal.SIGKILL)
                os.waitpid(terminal.pid, 0)
                pytest.fail(f"{side}: it goes on without its terminal")
            time.sleep(0.01)


def test_a_script_with_a_terminal_of_its_own(bench):
    """script(1), as expect and tmux do: a new pseudo-terminal made inside."""
    bench.same("sh", "-ec", "script -qec 'tty | sed s/[0-9]*$//; stty size; test -t 0 && echo terminal' /dev/null | tr -d '\\r'",
               needs=("script",))
