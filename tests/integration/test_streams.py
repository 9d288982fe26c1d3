"""Standard input, output and error are the command's own, byte for byte and end for end."""
import hashlib
import os
import signal
import socket
import subprocess
import time

import pytest

BIG = 100 * 1000 * 1000


@pytest.fixture(scope="module")
def noise(scratch):
    """A file of random bytes and its checksum."""
    path = scratch / "noise"
    digest = hashlib.sha256()
    with open(path, "wb") as stream:
        for _ in range(100):
            block = os.urandom(BIG // 100)
            digest.update(block)
            stream.write(block)
    yield path, digest.hexdigest()
    path.unlink()


def digest_of(stream):
    digest, length = hashlib.sha256(), 0
    while block := stream.read(1 << 20):
        digest.update(block)
        length += len(block)
    return length, digest.hexdigest()


@pytest.mark.parametrize("stream, script", [("stdout", "exec cat"), ("stderr", "exec cat >&2")])
def test_100_megabytes(box, form, noise, stream, script):
    path, digest = noise
    words = ["sh", "-c", script]
    start = box.run_words(words) if form == "run" else box.wrap(*words)["argv"]
    feed = subprocess.Popen(["cat", path], stdout=subprocess.PIPE)
    process = box.spawn(start, stdin=feed.stdout)
    feed.stdout.close()
    assert digest_of(getattr(process, stream)) == (BIG, digest)
    assert process.wait(timeout=60) == 0 and feed.wait(timeout=60) == 0


def test_a_file_as_input_and_output(box, noise):
    path, digest = noise
    copy = box.base / "copy"
    with open(path, "rb") as source, open(copy, "wb") as target:
        process = box.spawn(box.run_words(["cat"]), stdin=source, stdout=target)
        assert process.wait(timeout=60) == 0
    with open(copy, "rb") as stream:
        assert digest_of(stream) == (BIG, digest)


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)])
def test_standard_streams_closed_at_the_start(box, form, closed):
    """They stay closed for the command, and nothing of confine's takes their place."""
    script = "for fd in 0 1 2; do [ -e /proc/$$/fd/$fd ] && echo $fd >>open; done; exit 3"
    words = ["sh", "-c", script]
    start = box.run_words(words, report=box.reports / "r") if form == "run" else box.wrap(*words)["argv"]
    (box.ws / "open").touch()
    box.who.own(box.ws / "open")
    process = box.spawn(start, last=lambda: [os.close(fd) for fd in closed])
    process.communicate(timeout=60)
    assert process.returncode == 3
    assert {int(line) for line in (box.ws / "open").read_text().split()} == {0, 1, 2} - set(closed)
    if form == "run":
        assert (box.reports / "r").exists()


def test_a_record_to_a_descriptor_while_streams_are_closed(any_box):
    reading, writing = os.pipe()
    process = any_box.spawn(any_box.run_words(["true"], report=f"fd:{writing}"), pass_fds=[writing],
                            last=lambda: [os.close(fd) for fd in (0, 1, 2)])
    os.close(writing)
    assert process.wait(timeout=60) == 0
    with open(reading, "rb") as stream:
        assert stream.read().startswith(b'{"schema":"confine.result/1"')


def test_a_closed_pipe_as_output(box, form):
    """Death by SIGPIPE, as outside."""
    words = ["sh", "-c", "while :; do echo y; done"]
    start = box.run_words(words, report=box.reports / "r") if form == "run" else box.wrap(*words)["argv"]
    process = box.spawn(start)
    assert process.stdout.read(2) == b"y\n"
    process.stdout.close()
    got = process.wait(timeout=20)
    assert got in ((141,) if form == "run" else (-signal.SIGPIPE, 141))
    box.mark.wait_gone()


def test_output_to_head(box):
    process = box.spawn(["sh", "-c", '"$@" | head -n 3; echo "rest"', "sh", *box.run_words(["yes"])])
    out, err = process.communicate(timeout=20)
    assert (out, err) == (b"y\ny\ny\nrest\n", b"")


def test_a_reader_sees_the_end_when_the_command_closes_its_output(box, form):
    """Nothing of confine's keeps the pipe open."""
    words = ["sh", "-c", "echo bye; exec >&- 2>&-; sleep 300"]
    process = box.spawn(box.run_words(words) if form == "run" else box.wrap(*words)["argv"])
    since = time.monotonic()
    assert process.stdout.read() == b"bye\n"
    assert time.monotonic() - since < 10
    assert process.poll() is None
    process.kill()


def test_a_writer_sees_that_the_command_closes_its_input(box, form):
    words = ["sh", "-c", "exec <&-; echo closed; sleep 300"]
    process = box.spawn(box.run_words(words) if form == "run" else box.wrap(*words)["argv"], stdin=subprocess.PIPE)
    assert process.stdout.read(7) == b"closed\n"
    with pytest.raises(BrokenPipeError):
        for _ in range(1000):
            process.stdin.write(bytes(65536))
            process.stdin.flush()
    process.kill()


def test_what_is_left_in_a_pipe_stays_for_the_next_reader(box):
    """confine itself reads nothing of the input."""
    process = box.spawn(["sh", "-c", '"$@"; cat', "sh", *box.run_words(["head", "-c", "4"])], stdin=subprocess.PIPE)
    # head reads a block; a file keeps what was not taken, a pipe only what was not read.
    out, _ = process.communicate(b"abcd", timeout=20)
    assert out == b"abcd"
    path = box.base / "input"
    path.write_bytes(b"one\ntwo\nthree\n")
    with open(path, "rb") as stream:
        process = box.spawn(["sh", "-c", '"$@"; cat', "sh", *box.run_words(["sh", "-c", "read line; echo $line"])],
                            stdin=stream)
        out, _ = process.communicate(timeout=20)
    assert out == b"one\ntwo\nthree\n"


def test_input_that_never_ends_does_not_hold_run(box, form):
    words = ["true"]
    reading, writing = os.pipe()
    process = box.spawn(box.run_words(words) if form == "run" else box.wrap(*words)["argv"], stdin=reading)
    os.close(reading)
    assert process.wait(timeout=20) == 0
    os.close(writing)


def test_a_socket_as_standard_streams(box, form):

    ours, theirs = socket.socketpair()
    words = ["cat"]
    process = box.spawn(box.run_words(words) if form == "run" else box.wrap(*words)["argv"], stdin=theirs, stdout=theirs)
    theirs.close()
    ours.sendall(b"ping")
    ours.shutdown(socket.SHUT_WR)
    assert ours.recv(16) == b"ping"
    assert ours.recv(16) == b""
    assert process.wait(timeout=20) == 0
    ours.close()


def test_opening_the_standard_streams_by_name(box):
    """A pipe of one's own can be opened again through /dev/stdin and its like, as outside."""
    inner = box.run_words(["sh", "-c", "cat /dev/stdin >/dev/stdout; echo err >/dev/stderr"])
    process = box.spawn(["sh", "-c", '{ echo through | "$@" 2>&3 | cat; } 3>&1 | cat', "sh", *inner])
    out, _ = process.communicate(timeout=20)
    assert sorted(out.split()) == [b"err", b"through"]
