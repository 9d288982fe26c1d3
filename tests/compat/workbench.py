"""The same work done outside and inside, in folders of the same name, and compared."""
import hashlib
import os
import pty
import re
import select
import shutil
import signal
import stat
import subprocess
import time

import pytest

from blackbox import PATH, program

LIMIT = 60


class Bench:
    """Two workspaces of somebody: one to work in unconfined, one under a runner."""

    def __init__(self, scratch, programs, who, runner, name):
        self.programs, self.who, self.runner = programs, who, runner
        self.options, self.more = ["--write", "/dev/shm"] if runner == "landlock" else [], {}
        self.base = scratch / f"{name}-{who.name}-{runner}"
        self.places = {"outside": self.base / "outside" / "ws", "inside": self.base / "inside" / "ws"}
        for place in self.places.values():
            place.mkdir(parents=True)
            who.own(place)

    def close(self):
        shutil.rmtree(self.base, ignore_errors=True)

    def environment(self, place):
        return {"PATH": PATH, "HOME": str(place), "LANG": "C.UTF-8", "TERM": "dumb",
                "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org",
                "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.org",
                "GIT_AUTHOR_DATE": "2020-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2020-01-01T00:00:00Z",
                **self.more}

    def words(self, side, words):
        if side == "outside":
            return words
        return [self.programs.confine, "run", "--runner", self.runner, *self.options, "--", *words]

    def give(self, name, text, mode=0o644):
        """A file that both have."""
        for place in self.places.values():
            path = place / name
            path.write_text(text)
            path.chmod(mode)
            self.who.own(path)

    def run(self, side, words, feed=b""):
        place = self.places[side]

        def prepare():
            os.umask(0o022)
            self.who.become()

        done = subprocess.run(self.words(side, words), cwd=place, env=self.environment(place), preexec_fn=prepare,
                              input=feed, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT,
                              check=False)
        return done.returncode, self.plain(side, done.stdout)

    def plain(self, side, output):
        """Without what differs from one time to the next: places, process ids, addresses, seconds."""
        text = output.decode(errors="replace").replace(str(self.places[side].parent), "")
        text = re.sub(r"0x[0-9a-f]+", "0x", text)
        # Not the exit statuses of signals.
        return re.sub(r"\b(?!130\b|137\b|143\b)\d{3,}\b(\.\d+)?", "N", text)

    def same(self, *words, needs=(), unequal=(), dated=None, feed=b"", status=0):
        """Runs words on both sides; what they print, how they end and what they leave must be the same, but
        for the contents of the files that unequal matches. Times count for the files that dated matches.
        Returns what was printed."""
        for name in needs:
            program(name)
        outside, inside = (self.run(side, list(words), feed) for side in ("outside", "inside"))
        assert outside[0] == status, f"it fails unconfined: {outside[1]}"
        assert inside == outside
        assert self.tree("inside", unequal, dated) == self.tree("outside", unequal, dated)
        return inside[1]

    def tree(self, side, unequal=(), dated=None):
        place, seen = self.places[side], {}
        for path in sorted(place.rglob("*")):
            st, name = path.lstat(), str(path.relative_to(place))
            content = ""
            if stat.S_ISREG(st.st_mode) and not any(re.search(pattern, name) for pattern in unequal):
                content = hashlib.sha256(path.read_bytes()).hexdigest()
            elif stat.S_ISLNK(st.st_mode):
                content = os.readlink(path)
            time_of = st.st_mtime_ns if dated and re.search(dated, name) else None
            seen[name] = (oct(st.st_mode), st.st_uid, st.st_gid, st.st_nlink, time_of, content)
        return seen

    def terminal(self, side, *words):
        return Terminal(self, side, words)


class Terminal:
    """A program on a terminal of its own, driven as by a person."""

    def __init__(self, bench, side, words):
        self.bench, self.side, self.seen = bench, side, b""
        place = bench.places[side]
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                for number in (signal.SIGPIPE, signal.SIGXFSZ):
                    signal.signal(number, signal.SIG_DFL)
                os.chdir(place)
                bench.who.own(os.ttyname(0))
                bench.who.become()
                start = bench.words(side, list(words))
                os.execvpe(start[0], start, bench.environment(place))
            finally:
                os._exit(99)

    def expect(self, text, seconds=20):
        """Reads until text has come, and forgets it."""
        deadline = time.monotonic() + seconds
        while text.encode() not in self.seen:
            if time.monotonic() > deadline or not self._more(deadline):
                pytest.fail(f"{self.side}: waited for {text!r}, got {self.seen!r}")
        before, _, self.seen = self.seen.partition(text.encode())
        return before + text.encode()

    def _more(self, deadline):
        if select.select([self.fd], [], [], max(0, deadline - time.monotonic()))[0]:
            try:
                data = os.read(self.fd, 4096)
            except OSError:
                data = b""
            self.seen += data
            return bool(data)
        return True

    def send(self, text):
        os.write(self.fd, text.encode())

    def hand_over(self, line, seconds=20):
        """Sends a line that makes the shell give the terminal to a job, and waits until that has it."""
        before, deadline = os.tcgetpgrp(self.fd), time.monotonic() + seconds
        self.send(line)
        while os.tcgetpgrp(self.fd) == before:
            if time.monotonic() > deadline:
                pytest.fail(f"{self.side}: no job came to the front")
            time.sleep(0.005)

    def end(self, seconds=20):
        """What came last, and the exit status."""
        deadline = time.monotonic() + seconds
        while self._more(deadline) and time.monotonic() < deadline:
            pass
        while time.monotonic() < deadline:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self.fd)
                return self.seen, os.waitstatus_to_exitcode(status)
            time.sleep(0.01)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)
        pytest.fail(f"{self.side}: does not end; last came {self.seen!r}")
        return None
