"""observer: what watching for refused writes costs."""
from measure import RUNNERS, everybody

import calls
import jobs

BUILD_LIMIT, WRITES_LIMIT = 1.04, 1.35
FILES = 3000


def prefixes(bench, who, folder):
    found = {"plain": []}
    for runner in RUNNERS:
        on, off = calls.run_under(bench, runner), calls.run_under(bench, runner, "--no-observe")
        if runner != "bwrap" and bench.usable(who, folder, [*on, "/bin/true"]):
            found[f"{runner} off"], found[f"{runner} on"] = off, on
    return found


def table(bench, title, found, job, put, rounds, limit=None, again=False):
    who = everybody()[-1]
    rows, walls = jobs.compare(bench, who, found, job, put, rounds, again)
    for name, row in rows.items():
        runner, _, state = name.partition(" ")
        row["onToOff"] = jobs.middle_ratio(walls[name], walls[f"{runner} off"]) if state == "on" else None
        row["leastOnToOff"] = row["least"] / rows[f"{runner} off"]["least"] if state == "on" else None
        if limit and row["onToOff"] and row["onToOff"] > limit:
            bench.note(f"{title}, {name}: {row['onToOff']:.3f} of off, more than {limit}")
    bench.table(f"{title}, as {who.name}", rows, jobs.COLUMNS + [("onToOff", "on to off", ".3f"),
                                                                 ("leastOnToOff", "of least", ".3f")])


def per_call(bench, who, folder):
    inside, outside = folder / "inside", bench.scratch / f"outside-{who.name}"
    for file in (inside, outside):
        file.touch()
        who.give(file)
    count = str(bench.rounds(3000, 20000))
    cases = {"open plain": ([], ("open", count, str(inside)))}
    for name, command in prefixes(bench, who, folder).items():
        if command:
            cases[f"open inside, {name}"] = (command, ("open", count, str(inside)))
            cases[f"open outside, {name}"] = (command, ("open", count, str(outside)))
    rows = calls.in_turn(bench, who, folder, cases, bench.rounds(3, 9))
    for name, row in rows.items():
        other = rows.get(name.replace(" on", " off"))
        row["over"] = row["median"] - other["median"] if name.endswith(" on") else None
    bench.table(f"open and close, as {who.name}", rows, calls.COLUMNS[:3] + [("over", "on over off us", ".2f")])


def run(bench):
    who = everybody()[-1]
    folder = bench.folder(who)
    found = prefixes(bench, who, folder)
    table(bench, f"C build of {jobs.SOURCES} files, make -j2", found, ["make", "-sj2"], jobs.put_sources,
          bench.rounds(2, 9), BUILD_LIMIT)
    loops = {"Python": ["/usr/bin/python3", "w.py", str(FILES)], "C": [bench.program("calls"), "files", str(FILES), "w"]}
    for language, loop in loops.items():
        title = f"{FILES} small files from {language}, one thread"
        table(bench, f"{title}, in a folder emptied before", found, loop, jobs.put_writer, bench.rounds(5, 15),
              WRITES_LIMIT if language == "Python" else None, again=True)
        table(bench, f"{title}, in a new folder", found, loop, jobs.put_writer, bench.rounds(5, 15))
    per_call(bench, who, folder)
