"""--report: the record reaches its place whole, when the command has ended, or not at all."""
import base64
import json
import os
import stat
import time

import pytest


def run(box, report, *words, **how):
    process = box.spawn(box.run_words(words or ("true",), report=report), **how)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def test_the_file_is_not_there_before_the_end(box):
    place = box.reports / "record"
    process = box.spawn(box.run_words(["sh", "-c", "echo go; read line"], report=place), stdin=-1)
    assert process.stdout.read(3) == b"go\n"
    assert os.listdir(box.reports) == []
    process.communicate(b"\n", timeout=20)
    assert os.listdir(box.reports) == ["record"]
    text = place.read_text()
    assert text.endswith("}\n") and text.count("\n") == 1
    assert json.loads(text)["schema"] == "confine.result/1"
    assert place.stat().st_uid == box.who.uid


def test_an_existing_file_is_replaced_at_the_end(any_box):
    place = any_box.reports / "record"
    place.write_text("old\n" * 5000)
    any_box.who.own(place)
    keep = any_box.reports / "keep"
    os.link(place, keep)
    process = any_box.spawn(any_box.run_words(["sh", "-c", "echo go; read line"], report=place), stdin=-1)
    assert process.stdout.read(3) == b"go\n"
    assert place.read_text() == "old\n" * 5000
    process.communicate(b"\n", timeout=20)
    json.loads(place.read_text())
    assert keep.read_text() == "old\n" * 5000


def test_a_symbolic_link_stays_one(any_box):
    target, link = any_box.base / "target", any_box.reports / "link"
    target.write_text("old")
    any_box.who.own(target)
    link.symlink_to(target)
    assert run(any_box, link)[0] == 0
    assert link.is_symlink() and json.loads(target.read_text())


@pytest.mark.parametrize("target", ["nothing", "link"])
def test_a_symbolic_link_to_no_file(any_box, target):
    link = any_box.reports / "link"
    link.symlink_to(target)
    status, out, err = run(any_box, link, "touch", "ran")
    assert (status, out) == (125, b"") and b"confine: --report" in err and b"name the file itself" in err
    assert link.is_symlink() and os.listdir(any_box.reports) == ["link"] and not (any_box.ws / "ran").exists()


def test_the_workspace_may_hold_the_record(any_box):
    """It is written by confine after the command's end, so a file of the command's under its name loses."""
    place = any_box.ws / "record"
    assert run(any_box, place, "sh", "-c", f"echo forged >{place}; mkdir x")[0] == 0
    assert json.loads(place.read_text())["schema"] == "confine.result/1"


def test_a_relative_place(any_box):
    assert run(any_box, "record")[0] == 0
    assert json.loads((any_box.ws / "record").read_text())


def test_a_place_below_tmp(any_box):
    """The host's, although the command has a /tmp of its own."""
    place = f"/tmp/confine-test-{os.getpid()}-{any_box.mark.value}"
    try:
        assert run(any_box, place, "sh", "-c", f"echo forged >{place}")[0] == 0
        with open(place, encoding="utf-8") as stream:
            assert json.load(stream)["schema"] == "confine.result/1"
    finally:
        if os.path.exists(place):
            os.unlink(place)


def test_a_descriptor(box):
    reading, writing = os.pipe()
    process = box.spawn(box.run_words(["sh", "-c", f"echo forged >&{writing}; ls /proc/self/fd"],
                                      report=f"fd:{writing}"), pass_fds=[writing])
    os.close(writing)
    process.communicate(timeout=60)
    with open(reading, "rb") as stream:
        text = stream.read()
    assert text.count(b"\n") == 1 and json.loads(text)["schema"] == "confine.result/1"


def test_standard_error_as_place(any_box):
    for place in ("fd:2", "/dev/stderr"):
        # A pipe of one's own, since opening it again by name takes its owner's rights.
        words = any_box.run_words(["sh", "-c", "echo own >&2"], report=place)
        process = any_box.spawn(["sh", "-c", '"$@" 2>&1 | cat', "sh", *words])
        out, _ = process.communicate(timeout=60)
        first, _, rest = out.partition(b"\n")
        assert first == b"own" and json.loads(rest)["schema"] == "confine.result/1"


def test_a_fifo_as_place(any_box):
    place = any_box.reports / "fifo"
    os.mkfifo(place)
    any_box.who.own(place)
    reading = os.open(place, os.O_RDONLY | os.O_NONBLOCK)
    assert run(any_box, place)[0] == 0
    assert json.loads(os.read(reading, 65536))["schema"] == "confine.result/1"
    os.close(reading)
    assert stat.S_ISFIFO(os.stat(place).st_mode)


def test_a_fifo_without_a_reader_is_refused(any_box):
    place = any_box.reports / "fifo"
    os.mkfifo(place)
    any_box.who.own(place)
    code, out, err = run(any_box, place, "touch", "ran")
    assert (code, out) == (125, b"") and str(place).encode() in err
    assert not (any_box.ws / "ran").exists()


def test_nothing_is_left_when_confine_is_killed(box):
    place = box.reports / "record"
    process = box.spawn(box.run_words(["sleep", "300"], report=place))
    box.mark.wait_for("sleep")
    process.kill()
    process.wait(timeout=20)
    box.mark.wait_gone()
    assert os.listdir(box.reports) == []


def test_the_record_comes_when_everything_has_ended(box):
    """By default the command's background processes are ended before."""
    place = box.reports / "record"
    since = time.monotonic()
    assert run(box, place, "sh", "-c", "sleep 300 >/dev/null 2>&1 &")[0] == 0
    assert time.monotonic() - since < 10 and json.loads(place.read_text())["exitCode"] == 0
    assert box.mark.processes() == []


def test_names_that_are_not_utf8(box):
    folder = os.fsencode(box.ws) + b"/\xff\xfe name"
    os.mkdir(folder)
    os.chown(folder, box.who.uid, box.who.gid)
    outcome = box.confine("sh", "-c", "echo x >in", cwd=os.fsdecode(folder))
    assert outcome.rc == 0 and os.path.exists(folder + b"/in")
    assert base64.b64decode(outcome.record["workspaceRoot"]["bytes"]) == folder
    assert outcome.record["writableRoots"] == [outcome.record["workspaceRoot"]]


@pytest.mark.parametrize("words", [("/nonexistent/x",), ("sh", "-c", "kill -9 $$"), ("sh", "-c", "exit 9")])
def test_there_is_a_record_whatever_happened(box, words):
    outcome = box.confine(*words)
    assert outcome.record["schema"] == "confine.result/1"
    assert set(outcome.record) == {
        "schema", "mode", "workspaceRoot", "writableRoots", "runner", "enforcement", "gaps", "openChannels", "started",
        "runnerFailure", "exitCode", "signal", "timedOut", "denied", "denialEvidence", "denials", "denialsDropped",
        "notices", "durationMs"}
