"""Longer jobs, timed outside and inside in turn."""
import resource
import shutil
import statistics
import subprocess
import time

from measure import LIMIT, Failure

SOURCES = 120
COLUMNS = [("median", "median ms", ".1f"), ("least", "least", ".1f"), ("greatest", "greatest", ".1f"),
           ("cpu", "cpu ms", ".1f"), ("toFirst", "to plain", ".3f"), ("toLeast", "of least", ".3f")]
MAKEFILE = """O=$(patsubst %.c,%.o,$(wildcard f*.c))
all: l.a
l.a: $(O)
\tar rcs l.a $(O)
%.o: %.c
\t@cc -O1 -c $< -o $@
"""
SMALL_WRITES = """import os, sys
for i in range(int(sys.argv[1])):
    with open('w/%d' % i, 'w') as f: f.write('x')
"""


def give_all(folder, who):
    for path in [folder, *folder.rglob("*")]:
        who.give(path)


def put_sources(folder):
    for i in range(SOURCES):
        text = (f"#include <stdio.h>\n#include <stdlib.h>\nint f{i}(int x) {{ char b[64]; "
                f'snprintf(b, 64, "%d", x); return atoi(b) + {i}; }}\n')
        (folder / f"f{i}.c").write_text(text)
    (folder / "Makefile").write_text(MAKEFILE)


def put_writer(folder):
    shutil.rmtree(folder / "w", ignore_errors=True)
    (folder / "w").mkdir()
    (folder / "w.py").write_text(SMALL_WRITES)


def time_once(who, folder, command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    done = subprocess.run([*who.prefix, *command], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, timeout=LIMIT, check=False)
    wall = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise Failure(f"{' '.join(command[:5])}... ended with {done.returncode}: "
                      f"{done.stderr.decode(errors='replace').strip()[-300:]}")
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall * 1000, used * 1000


def middle_ratio(ours, theirs):
    """Of pairs measured one after the other, so that a slow minute touches both."""
    return statistics.median(a / b for a, b in zip(ours, theirs))


def compare(bench, who, prefixes, job, put, rounds, again=False):
    """prefixes: {name: words before the job's command}, the first one plain; put(folder) fills the folder of one
    run. Each run has a new one, its workspace: ext4 takes long to use the inodes of deleted files again. With
    again they share one, as somebody does who works there; then put also clears it. Returns rows by name, and the
    times they are made of."""
    walls, used = {name: [] for name in prefixes}, {name: [] for name in prefixes}
    names = list(prefixes)
    shared = bench.new_folder(who) if again else None
    for turn in range(rounds):
        # Whoever comes first finds the caches as the last one left them.
        for name in names[turn % len(names):] + names[:turn % len(names)]:
            folder = shared or bench.new_folder(who)
            put(folder)
            give_all(folder, who)
            words = prefixes[name](folder) if callable(prefixes[name]) else prefixes[name]
            wall, cpu = time_once(who, folder, [*words, *job])
            walls[name].append(wall)
            used[name].append(cpu)
    rows, first = {}, walls[names[0]]
    for name, values in walls.items():
        rows[name] = {"median": statistics.median(values), "least": min(values), "greatest": max(values),
                      "cpu": statistics.median(used[name]), "toFirst": middle_ratio(values, first),
                      "toLeast": min(values) / min(first)}
    return rows, walls
