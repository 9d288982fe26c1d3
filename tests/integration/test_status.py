"""The command's end comes back as it was, by `confine run` and by what `confine wrap` says to spawn."""
import json
import os
import signal
import time

import pytest

from blackbox import ENDED, SETUP_FAILED, SIGNAL, STARTED, STOPPED, Channel, wait_until

SIGNALS = ["SIGHUP", "SIGINT", "SIGQUIT", "SIGILL", "SIGABRT", "SIGKILL", "SIGUSR1", "SIGSEGV", "SIGPIPE", "SIGALRM",
           "SIGTERM", "SIGUSR2", "SIGXCPU", "SIGSYS", "SIGRTMIN", "SIGRTMAX"]


def assert_record(record, **expected):
    for name, value in expected.items():
        assert record[name] == value, record


def test_the_record(box):
    outcome = box.confine("true")
    assert outcome.rc == 0 and outcome.out == b"" and outcome.err == b""
    assert_record(outcome.record, schema="confine.result/1", mode="workspace-write", workspaceRoot=str(box.ws),
                  writableRoots=[str(box.ws)], runner=box.runner, started=True, runnerFailure=None, exitCode=0,
                  signal=None, timedOut=False, denied=False, denials=[], denialsDropped=0)
    assert outcome.record["enforcement"] == ("partial" if outcome.record["gaps"] else "full")
    assert {"ipc", "network", "process"} <= set(outcome.record["openChannels"])
    assert 0 < outcome.record["durationMs"] < 60000


def test_read_only_has_no_writable_root(box):
    outcome = box.confine("sh", "-c", "echo x >inside", options=("--mode", "read-only"))
    assert outcome.rc != 0 and not (box.ws / "inside").exists()
    assert_record(outcome.record, mode="read-only", writableRoots=[], started=True)


def test_danger_full_access_is_not_confined(any_box):
    outcome = any_box.confine("sh", "-c", f"echo x >{any_box.outside}/new; exit 3",
                              options=("--mode", "danger-full-access"))
    assert outcome.rc == 3 and (any_box.outside / "new").exists()
    assert_record(outcome.record, mode="danger-full-access", runner=None, enforcement=None, exitCode=3)


def test_the_workspace_is_written_and_the_rest_is_not(box, form):
    """The unconfined control comes last, on the same victim."""
    script = f"echo in >in; echo out >{box.outside}/new; echo out >{box.victim}; rm -f {box.victim}"
    outcome = box.confine("sh", "-c", script, form=form)
    assert outcome.rc != 0
    assert (box.ws / "in").read_text() == "in\n"
    box.assert_untouched()
    control = box.spawn(["sh", "-c", script])
    control.communicate(timeout=60)
    assert (box.outside / "new").exists() and not box.victim.exists()


def test_every_exit_code(box):
    """One shell in the box runs many, so each code is also started by itself at the interesting ends."""
    for code in (0, 1, 2, 63, 124, 125, 126, 127, 128, 129, 137, 143, 254, 255):
        outcome = box.confine("sh", "-c", f"exit {code}")
        assert outcome.rc == code and outcome.err == b""
        assert_record(outcome.record, started=True, exitCode=code, signal=None, timedOut=False, runnerFailure=None)


def test_all_256_exit_codes(any_box):
    for code in range(256):
        process = any_box.spawn(any_box.run_words(["sh", "-c", f"exit {code}"]))
        process.communicate(timeout=60)
        assert process.returncode == code


def test_exit_codes_of_the_wrapped_form(box):
    argv = box.wrap("sh", "-c", "exit $0")["argv"]
    for code in (0, 1, 2, 63, 124, 125, 126, 127, 128, 129, 137, 143, 254, 255):
        process = box.spawn([*argv, str(code)])
        _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (code, b"")


@pytest.mark.parametrize("name", SIGNALS)
def test_death_by_signal(box, name):
    number = int(getattr(signal, name))
    outcome = box.confine("sh", "-c", f"ulimit -c 0; kill -{number} $$")
    assert outcome.rc == 128 + number, outcome
    expected = {"SIGRTMAX": "SIGRTMIN+30"}.get(name, name)
    assert_record(outcome.record, started=True, exitCode=None, signal=expected, timedOut=False, runnerFailure=None)
    assert outcome.err == b""


@pytest.mark.parametrize("name", SIGNALS)
def test_death_by_signal_of_the_wrapped_form(box, name):
    """A foreign spawner sees the death itself, not an exit code that means it."""
    number = int(getattr(signal, name))
    outcome = box.confine("sh", "-c", f"ulimit -c 0; kill -{number} $$", form="wrap")
    if box.runner == "bwrap":
        # bwrap itself turns a signal into an exit code; its record is exact, see below.
        assert outcome.rc in (-number, 128 + number)
    else:
        assert outcome.rc == -number, outcome


def test_exit_143_is_not_sigterm(box):
    """Part of it by records: bwrap's own exit status does not tell them apart."""
    cases = {"exit 143": (143 << 8), "kill -TERM $$": signal.SIGTERM, "exit 137": (137 << 8),
             "kill -KILL $$": signal.SIGKILL}
    for script, status in cases.items():
        record = box.confine("sh", "-c", script).record
        if status > 255:
            assert_record(record, exitCode=status >> 8, signal=None)
        else:
            assert_record(record, exitCode=None, signal=signal.Signals(status).name)
        channel = Channel()
        argv = channel.words(box.wrap("sh", "-c", script)["argv"])
        process = box.spawn(argv, pass_fds=[channel.theirs.fileno()])
        messages = channel.messages()
        process.communicate(timeout=60)
        assert [m[0] for m in messages] == [STARTED, ENDED], messages
        assert messages[1][1] == status


@pytest.mark.parametrize("words, code, text", [
    (("/nonexistent/x",), 127, "not found"), (("no-such-command",), 127, "not found"),
    (("./missing",), 127, "not found"), (("",), 127, ""), (("/etc/hostname/x",), 127, ""),
    (("./plain",), 126, "not executable"), (("./folder",), 126, "not executable"),
    (("/",), 126, "not executable"), (("./no-interpreter",), 127, ""),
    (("x" * 300,), 127, ""),
])
def test_a_command_that_cannot_start(box, words, code, text):
    (box.ws / "plain").write_text("echo\n")
    (box.ws / "folder").mkdir()
    (box.ws / "no-interpreter").write_text("#!/nonexistent/interpreter\n")
    (box.ws / "no-interpreter").chmod(0o755)
    outcome = box.confine(*words)
    assert outcome.rc == code, outcome
    assert_record(outcome.record, started=False, exitCode=code, signal=None, runnerFailure=None, timedOut=False)
    assert outcome.text.startswith("confine: ") and text in outcome.text and words[0] in outcome.text


def test_exec_failure_of_the_wrapped_form(box):
    (box.ws / "plain").write_text("echo\n")
    launcher = "namespace-run" if box.runner == "namespace" else "landlock-run"
    for words, error in (("/nonexistent/x", "No such file or directory"), ("./plain", "Permission denied")):
        outcome = box.confine(words, form="wrap")
        assert outcome.rc == 125 and outcome.text == f"{launcher}: exec failed: {error}\n"
        channel = Channel()
        process = box.spawn(channel.words(box.wrap(words)["argv"]), pass_fds=[channel.theirs.fileno()])
        messages = channel.messages()
        process.communicate(timeout=60)
        assert [m[0] for m in messages] == [SETUP_FAILED]


def test_a_late_continue_does_not_undo_the_next_stop(box):
    """SIGCONT is for the stop that its sender knew of: a terminal may have stopped the command again meanwhile."""
    channel = Channel()
    script = "kill -STOP $$; kill -STOP $$; exit 5"
    process = box.spawn(channel.words(box.wrap("sh", "-c", script)["argv"]), pass_fds=[channel.theirs.fileno()])
    assert channel.message()[0] == STARTED
    assert channel.message()[:3] == (STOPPED, signal.SIGSTOP, 1)
    channel.send(SIGNAL, signal.SIGCONT, 1)
    assert channel.message()[:3] == (STOPPED, signal.SIGSTOP, 2)
    channel.send(SIGNAL, signal.SIGCONT, 1)
    assert channel.message(0.3) is None
    channel.send(SIGNAL, signal.SIGCONT, 2)
    ended = channel.messages()
    assert [message[0] for message in ended] == [ENDED] and os.waitstatus_to_exitcode(ended[0][1]) == 5
    process.communicate(timeout=60)


def test_a_script_without_interpreter_line_runs(box, form):
    (box.ws / "script").write_text('echo "$1 from $0"; exit 7\n')
    (box.ws / "script").chmod(0o755)
    outcome = box.confine("./script", "hello", form=form)
    assert (outcome.rc, outcome.out) == (7, b"hello from ./script\n")


def test_the_path_of_the_environment_is_searched(box, form):
    tools = box.ws / "tools"
    tools.mkdir()
    (tools / "my-tool").write_text("#!/bin/sh\necho mine\n")
    (tools / "my-tool").chmod(0o755)
    outcome = box.confine("my-tool", form=form, environment={"PATH": f"/nonexistent:{tools}:/usr/bin:/bin"})
    assert (outcome.rc, outcome.out) == (0, b"mine\n")


def test_output_that_looks_like_a_runners_failure(box, form):
    script = ('for name in bwrap landlock-run namespace-run confine sandbox-exec windows-acl-run; do '
              'echo "$name: cannot confine: Read-only file system" >&2; done; exit 125')
    outcome = box.confine("sh", "-c", script, form=form)
    assert outcome.rc == 125
    if form == "run":
        assert_record(outcome.record, started=True, exitCode=125, runnerFailure=None)


def test_timeout_ends_the_command_and_its_children(box):
    script = "sleep 300 & setsid sleep 300 & (trap '' TERM HUP INT; sleep 300) & sleep 300"
    outcome = box.confine("sh", "-c", script, options=("--timeout", "0.5"))
    assert outcome.rc == 124 and 0.5 <= outcome.seconds < 6
    assert_record(outcome.record, started=True, timedOut=True, runnerFailure=None, signal="SIGTERM", exitCode=None)
    box.mark.wait_gone()


def test_timeout_of_a_command_that_ignores_signals(box):
    outcome = box.confine("sh", "-c", "trap '' TERM HUP INT QUIT; while :; do sleep 1; done",
                          options=("--timeout", "0.3"))
    assert outcome.rc == 124 and outcome.seconds < 8
    assert_record(outcome.record, timedOut=True, signal="SIGKILL")
    box.mark.wait_gone()


def test_timeout_of_a_stopped_command(box):
    outcome = box.confine("sh", "-c", "kill -STOP $$", options=("--timeout", "0.3"), timeout=20)
    assert outcome.rc == 124
    box.mark.wait_gone()


def test_timeout_gives_a_command_time_to_clean_up(box):
    script = "trap 'echo cleaned >cleaned; exit 9' TERM; while :; do sleep 0.05; done"
    outcome = box.confine("sh", "-c", script, options=("--timeout", "0.5"))
    assert outcome.rc == 124 and (box.ws / "cleaned").exists()
    assert_record(outcome.record, timedOut=True, exitCode=9, signal=None)


def test_a_timeout_that_is_not_reached(box):
    outcome = box.confine("sh", "-c", "exit 4", options=("--timeout", "30"))
    assert outcome.rc == 4 and outcome.record["timedOut"] is False


def test_a_background_child_that_holds_the_output_does_not_hold_run(box, form):
    outcome = box.confine("sh", "-c", "sleep 300 & echo started", form=form, timeout=20)
    assert (outcome.rc, outcome.out) == (0, b"started\n") and outcome.seconds < 10
    box.mark.wait_gone()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1,
                                    signal.SIGUSR2, signal.SIGWINCH, signal.SIGCONT])
def test_a_signal_to_confine_reaches_the_command(box, form, number):
    script = ("import signal, sys, time\n"
              f"signal.signal({int(number)}, lambda *_: (open('got', 'w').close(), sys.exit(11)))\n"
              "open('ready', 'w').close()\n"
              "while True: time.sleep(0.05)\n")  # one long sleep may begin after the signal, before Python looks
    words = ["/usr/bin/python3", "-c", script]
    start = box.run_words(words) if form == "run" else box.wrap(*words)["argv"]
    process = box.spawn(start, start_new_session=True)
    wait_until((box.ws / "ready").exists)
    process.send_signal(number)
    if form == "wrap" and box.runner == "bwrap":
        # The process that was spawned is bwrap, which passes nothing on: a deadly signal ends it and the tree.
        # What a terminal's keys send, it holds back, as the command gets it from the terminal itself.
        if number in (signal.SIGWINCH, signal.SIGCONT, signal.SIGINT, signal.SIGQUIT):
            time.sleep(0.1)
            assert process.poll() is None
            process.kill()
        process.wait(timeout=20)
        box.mark.wait_gone()
        return
    assert process.wait(timeout=20) == 11
    assert (box.ws / "got").exists()


def test_a_deadly_signal_is_the_commands_death(box, form):
    words = ["sleep", "300"]
    process = box.spawn(box.run_words(words) if form == "run" else box.wrap(*words)["argv"], start_new_session=True)
    box.mark.wait_for("sleep")
    process.terminate()
    assert process.wait(timeout=20) == (143 if form == "run" else -signal.SIGTERM)
    box.mark.wait_gone()


def test_a_signal_that_arrives_as_the_command_ends(box):
    """However the two meet, the record is of the one or the other, and never of a lost monitor."""
    for i in range(60):
        report = box.report_path()
        process = box.spawn(box.run_words(["sh", "-c", "exit 5"], report=report))
        time.sleep(0.0003 * i)
        process.terminate()
        if process.wait(timeout=20) == -signal.SIGTERM:
            continue  # before confine had begun
        record = json.loads(report.read_text())
        assert record["runnerFailure"] is None
        assert (record["exitCode"], record["signal"]) in ((5, None), (None, "SIGTERM"))


def test_a_stop_signal_stops_both(box):
    """SIGTSTP to confine alone stops the command and then confine; SIGCONT continues both."""
    process = box.spawn(box.run_words(["sleep", "1"]), start_new_session=False, last=os.setpgrp)
    sleep = box.mark.wait_for("sleep")
    process.send_signal(signal.SIGTSTP)
    # SIGTSTP of an orphaned process group is ignored by the kernel, as it would be without confine.
    time.sleep(0.3)
    process.send_signal(signal.SIGCONT)
    assert process.wait(timeout=20) == 0
    assert not os.path.exists(f"/proc/{sleep}")


def test_stopping_and_continuing_confine_itself(box):
    process = box.spawn(box.run_words(["sh", "-c", "echo a; sleep 0.5; echo b; exit 6"]))
    box.mark.wait_for("sleep")
    process.send_signal(signal.SIGSTOP)
    time.sleep(0.7)
    if box.runner != "bwrap":  # there a monitor wakes confine at the end, since it may have stopped with the command
        assert process.poll() is None
    process.send_signal(signal.SIGCONT)
    out, _ = process.communicate(timeout=20)
    assert (process.returncode, out) == (6, b"a\nb\n")
