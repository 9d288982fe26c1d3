"""What the benches share: programs, users, interleaved timing, and tables."""
import datetime
import json
import os
import platform
import pwd
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
HERE = TOP / "bench"
RUNNERS = ("namespace", "bwrap", "landlock")
# What a program of another user's may be run as; any id without rights would do.
ORDINARY = "nobody"
C_FLAGS = ["-O2", "-std=c11", "-D_GNU_SOURCE=", f"-I{TOP}/src"]
LIMIT = 600


class Failure(Exception):
    """The bench cannot be run here, and why."""


def output(command, **options):
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=LIMIT, check=False, **options)
    if done.returncode != 0:
        text = done.stderr.decode(errors="replace").strip().splitlines()
        raise Failure(f"{Path(str(command[0])).name} ended with {done.returncode}: {text[-1] if text else ''}")
    return done.stdout.decode(errors="replace")


def machine():
    """The kind of machine, never its name."""
    model = "unknown processor"
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith(("model name", "CPU part")):
                model = line.split(":", 1)[1].strip()
                break
    virtual = " hypervisor" in Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    kind = "virtual machine" if virtual else "no hypervisor seen"
    return {"processor": model, "processors": os.cpu_count(), "kind": kind, "kernel": platform.release(),
            "architecture": platform.machine(), "date": datetime.date.today().isoformat(),
            "load": round(os.getloadavg()[0], 1), "mounts": len(Path("/proc/self/mountinfo").read_text().splitlines())}


def describe(facts):
    return (f"{facts['processor']}, {facts['processors']} processors, {facts['kind']}; Linux {facts['kernel']} "
            f"{facts['architecture']}; {facts['mounts']} mounts; {facts['date']}; load {facts['load']} at the start")


class Who:
    """Root or an ordinary user; `prefix` starts a command as that user, with nothing left between."""

    def __init__(self, name):
        self.name = name
        self.prefix = []
        self.owner = None
        if name == "user" and os.getuid() == 0:
            entry = pwd.getpwnam(ORDINARY)
            self.owner = (entry.pw_uid, entry.pw_gid)
            self.prefix = ["setpriv", "--reuid", str(entry.pw_uid), "--regid", str(entry.pw_gid), "--clear-groups"]

    def give(self, path):
        if self.owner:
            os.chown(path, *self.owner)
        return path


def everybody():
    return [Who("root"), Who("user")] if os.getuid() == 0 else [Who("user")]


class Bench:
    """One bench: a scratch folder with the built programs in it, and the tables it fills."""

    def __init__(self, name, settings):
        self.name = name
        self.settings = settings
        self.tables = []
        self.notes = []
        self.text = []
        self.folders = 0
        self.started = time.monotonic()
        self.facts = machine()
        self.scratch = Path(tempfile.mkdtemp(prefix="confine-bench.", dir="/var/tmp"))
        self.scratch.chmod(0o755)

    def remove(self):
        shutil.rmtree(self.scratch, ignore_errors=True)

    @property
    def quick(self):
        return not self.settings.full

    def rounds(self, quick, full):
        return full if self.settings.full else quick

    def program(self, name):
        """A compiled helper of bench/; bare is static, as the launchers it is compared with are."""
        place = self.scratch / f"bench-{name}"
        if not place.exists():
            command = ["cc", *C_FLAGS, "-o", place, HERE / f"{name}.c"]
            if name == "bare":
                kernel = next((TOP / "build").glob(f"musl-{platform.machine()}/kernel"), None)
                command = ["musl-gcc", *C_FLAGS, "-static", "-no-pie", "-idirafter", kernel or "/usr/include",
                           "-o", place, HERE / f"{name}.c"]
            output(command)
        return str(place)

    @property
    def confine(self):
        """A copy of what is built that every user can reach."""
        place = self.scratch / "installed"
        if not place.exists():
            shutil.copytree(TOP / "build" / "out", place, symlinks=True)
        return str(place / "bin" / "confine")

    def folder(self, who, name="ws"):
        path = self.scratch / f"{name}-{who.name}"
        path.mkdir(exist_ok=True)
        return who.give(path)

    def new_folder(self, who):
        self.folders += 1
        return self.folder(who, f"job{self.folders}")

    def wrapped(self, who, folder, runner, command, options=()):
        """The argv that wrap gives, or None where the runner cannot be used."""
        try:
            text = output([*who.prefix, self.confine, "wrap", "--runner", runner, *options, "--", *command], cwd=folder)
        except Failure as refusal:
            self.note(f"{runner} as {who.name}: {refusal}")
            return None
        return json.loads(text)["argv"]

    def usable(self, who, folder, command):
        done = subprocess.run([*who.prefix, *command], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, timeout=LIMIT, check=False)
        if done.returncode != 0:
            text = done.stderr.decode(errors="replace").strip().splitlines()
            self.note(f"left out, as {who.name}: {' '.join(command[:4])}...: {text[-1] if text else done.returncode}")
        return done.returncode == 0

    def note(self, text):
        if text not in self.notes:
            self.notes.append(text)

    def spin(self, who, folder, cases, rounds, before=()):
        """Interleaved starts; {name: row}, ratios to the first case and to bwrap's plain profile, if it is there."""
        words = []
        for name, command in cases:
            words += ([";;"] if words else []) + [name, *command]
        text = output([*before, *who.prefix, self.program("spin"), str(rounds), *words], cwd=folder)
        rows = {}
        for line in text.splitlines():
            name, median, low, high, cpu, peak = line.split()
            rows[name] = {"medianUs": float(median), "p10Us": float(low), "p90Us": float(high), "cpuUs": float(cpu),
                          "peakKiB": int(peak)}
        add_ratios(rows)
        return rows

    def table(self, title, rows, columns):
        """rows: {name: {column: value}}; columns: [(key, heading, format)]."""
        if not self.tables:
            self.emit(f"### {self.name}", "", describe(self.facts), "")
        self.tables.append({"title": title, "rows": rows})
        self.emit(*table_lines(title, rows, columns), "")

    def emit(self, *lines):
        self.text += lines
        if not self.settings.json:
            print("\n".join(lines), flush=True)

    def finish(self):
        seconds = time.monotonic() - self.started
        self.emit(*(f"- {note}" for note in self.notes), f"- took {seconds:.0f} s", "")
        return {"name": self.name, "machine": self.facts, "seconds": round(seconds, 1), "notes": self.notes,
                "tables": self.tables}


TIMES = [("medianUs", "median us", ".0f"), ("p10Us", "p10", ".0f"), ("p90Us", "p90", ".0f"), ("cpuUs", "cpu us", ".0f"),
         ("toFirst", "to plain", ".2f"), ("toBwrap", "to plain bwrap", ".2f")]


def add_ratios(rows, key="medianUs"):
    first = next(iter(rows.values()))[key]
    bwrap = rows.get("plain-bwrap", {}).get(key)
    for row in rows.values():
        row["toFirst"] = row[key] / first
        row["toBwrap"] = row[key] / bwrap if bwrap else None
    return rows


def table_lines(title, rows, columns):
    cells = [[title, *(heading for _, heading, _ in columns)]]
    for name, row in rows.items():
        cells.append([name, *(format(row[key], how) if row.get(key) is not None else "-"
                              for key, _, how in columns)])
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    lines = ["| " + " | ".join([line[0].ljust(widths[0]), *(cell.rjust(width)
                                                             for cell, width in zip(line[1:], widths[1:]))]) + " |"
             for line in cells]
    rule = "|" + "|".join(["-" * (widths[0] + 2), *("-" * (width + 1) + ":" for width in widths[1:])]) + "|"
    return [lines[0], rule, *lines[1:]]


def bwrap_plain(folder):
    """bwrap's plain profile, which leaves holes that ours closes; the field's usual measure."""
    return ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--die-with-parent", "--tmpfs", "/tmp",
            "--bind", str(folder), str(folder), "--"]
