"""scale: many starts at once, memory, and many writable roots."""
import os
import shutil
import subprocess
import time
from pathlib import Path

from measure import LIMIT, RUNNERS, Failure, bwrap_plain, everybody

import calls

PARALLEL = (1, 2, 4, 8, 16, 32, 64)
ROOTS = (1, 10, 50, 250)
COMMAND = ["/bin/true"]


def rate(bench, who, folder, command, width, each):
    """Commands a second with so many loops beside each other."""
    spin = bench.program("spin")
    loops, start = [], time.monotonic()
    for _ in range(width):
        loops.append(subprocess.Popen([*who.prefix, spin, str(each), "one", *command], cwd=folder,
                                      stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE))
    errors = [loop.communicate(timeout=LIMIT)[1] for loop in loops]
    if any(loop.returncode for loop in loops):
        raise Failure(f"{' '.join(command[:4])}... {width} at once: {next(text for text in errors if text).decode()}")
    # spin starts a few more to get warm.
    return width * (each + 5) / (time.monotonic() - start)


def usable_cases(bench, who, folder):
    cases = [("plain", COMMAND), ("plain-bwrap", bwrap_plain(folder) + COMMAND)]
    cases += [(runner, calls.run_under(bench, runner) + COMMAND) for runner in RUNNERS]
    return [(name, command) for name, command in cases if bench.usable(who, folder, command)]


def parallel(bench, who, folder):
    rows = {}
    for name, command in usable_cases(bench, who, folder):
        total = bench.rounds(64, 512)
        rows[name] = {f"p{width}": rate(bench, who, folder, command, width, max(1, total // width)) for width in PARALLEL}
    bench.table(f"starts a second, as {who.name}", rows, [(f"p{width}", f"{width} at once", ".0f") for width in PARALLEL])


def children(pid):
    return [int(child) for task in Path(f"/proc/{pid}/task").iterdir()
            for child in (task / "children").read_text().split()]


def resident(pid):
    """(its program, KiB of its own and of its share of what it shares), from proc(5)."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    sizes = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    return os.readlink(f"/proc/{pid}/exe"), sizes["Pss"]


def own_memory(pid, command):
    """Of what stands between caller and command. A monitor has the memory of the process above it."""
    total, todo, seen = 0, [(pid, None)], 0
    while todo:
        pid, above = todo.pop()
        program, size = resident(pid)
        if os.path.realpath(program) != os.path.realpath(command):
            seen += 1
            total += 0 if above == program else size
            todo += [(child, program) for child in children(pid)]
    return seen, total


def memory(bench, who, folder):
    command = shutil.which("sleep")
    rows = {}
    for name, argv in usable_cases(bench, who, folder)[1:]:
        running = subprocess.Popen([*who.prefix, *argv[:-1], command, "30"], cwd=folder, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL)
        time.sleep(0.3)
        processes, size = own_memory(running.pid, command)
        rows[name] = {"processes": processes, "pss": size}
        running.terminate()
        running.wait()
    bench.table(f"while a command runs, as {who.name}", rows,
                [("processes", "processes beside it", "d"), ("pss", "memory KiB (PSS)", "d")])
    rows = bench.spin(who, folder, usable_cases(bench, who, folder), bench.rounds(10, 50))
    bench.table(f"peak, as {who.name}", rows, [("peakKiB", "largest process KiB (RSS)", "d")])


def roots(bench, who, folder):
    places = []
    for i in range(ROOTS[-1]):
        places.append(bench.folder(who, f"root{i}"))
    rows = {}
    for runner in RUNNERS:
        if not bench.usable(who, folder, calls.run_under(bench, runner) + COMMAND):
            continue
        cases = [("plain", COMMAND)]
        for count in ROOTS:
            # The workspace is a root too.
            options = [word for place in places[:count - 1] for word in ("--write", str(place))]
            cases.append((str(count), calls.run_under(bench, runner, *options) + COMMAND))
        found = bench.spin(who, folder, cases, bench.rounds(30, 200))
        rows[runner] = {f"r{count}": found[str(count)]["medianUs"] for count in ROOTS}
        rows[runner]["each"] = (rows[runner][f"r{ROOTS[-1]}"] - rows[runner]["r1"]) / (ROOTS[-1] - 1)
    bench.table(f"start with many roots, as {who.name}", rows,
                [(f"r{count}", f"{count} us", ".0f") for count in ROOTS] + [("each", "a root us", ".1f")])


def run(bench):
    who = everybody()[-1]
    folder = bench.folder(who)
    parallel(bench, who, folder)
    memory(bench, who, folder)
    roots(bench, who, folder)
