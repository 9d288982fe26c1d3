"""metadata: what the calls cost that the supervisor makes for the command, and those that it does not."""
from measure import RUNNERS, add_ratios, everybody

import calls

KINDS = ("chmod", "utimes", "xattr")
TRAPPED_LIMIT_US = 40
UNTRAPPED_LIMIT = 0.01


def trapped(bench, who, folder):
    inside, outside = folder / "inside", bench.scratch / f"outside-{who.name}"
    for file in (inside, outside):
        file.touch()
        who.give(file)
    count = str(bench.rounds(2000, 10000))
    cases = {}
    runners = [runner for runner in RUNNERS
               if bench.usable(who, folder, calls.run_under(bench, runner, "--no-observe") + ["/bin/true"])]
    for kind in KINDS:
        cases[f"{kind} plain"] = ([], (kind, count, str(inside)))
        for runner in runners:
            command = calls.run_under(bench, runner, "--no-observe")
            cases[f"{kind} {runner} inside"] = (command, (kind, count, str(inside)))
            cases[f"{kind} {runner} outside"] = (command, (kind, count, str(outside)))
    rows = calls.in_turn(bench, who, folder, cases, bench.rounds(1, 5))
    for name, row in rows.items():
        kind = name.split()[0]
        row["over"] = row["median"] - rows[f"{kind} plain"]["median"]
        if "plain" not in name and row["median"] > TRAPPED_LIMIT_US:
            bench.note(f"{name} as {who.name}: {row['median']:.0f} us, more than {TRAPPED_LIMIT_US}")
    bench.table(f"trapped, as {who.name}", rows, calls.COLUMNS[:3] + [("over", "over plain us", ".1f")])


def guard_alone(bench, who, folder, runner):
    """The launcher with the same filter but for what goes to the supervisor, and no monitor beside it."""
    argv = bench.wrapped(who, folder, runner, ["true"])
    return [word for word in argv[:-1] if word not in ("--monitor", "--supervise", "--observe")] if argv else None


def untrapped(bench):
    """1,000,000 reads and writes: without anything, with the guard alone, and with supervisor and observer."""
    who = everybody()[-1]
    folder = bench.folder(who)
    words = ("plain", str(bench.rounds(1_000_000, 4_000_000)))
    cases = {"plain": ([], words)}
    for runner in ("landlock", "namespace"):
        guard = guard_alone(bench, who, folder, runner)
        if guard and bench.usable(who, folder, [*guard, "/bin/true"]):
            cases[f"{runner} guard alone"] = (guard, words)
            cases[f"{runner} supervised"] = (calls.run_under(bench, runner, "--no-observe"), words)
            cases[f"{runner} observed"] = (calls.run_under(bench, runner), words)
    rows = calls.in_turn(bench, who, folder, cases, bench.rounds(9, 31))
    add_ratios(rows, "least")
    for name, row in rows.items():
        row["nsOver"] = (row["least"] - rows["plain"]["least"]) * 1000
        row["leastNs"], row["medianNs"], row["greatestNs"] = (row[key] * 1000 for key in ("least", "median", "greatest"))
        alone = rows.get(f"{name.split()[0]} guard alone", row)
        row["toGuard"] = row["least"] / alone["least"] if "guard alone" not in name and name != "plain" else None
        if row["toGuard"] and row["toGuard"] > 1 + UNTRAPPED_LIMIT:
            bench.note(f"{name}: {row['toGuard']:.3f} of the guard alone, more than {1 + UNTRAPPED_LIMIT}")
    bench.table(f"read and write, as {who.name}", rows,
                [("leastNs", "least ns", ".1f"), ("medianNs", "median ns", ".1f"), ("greatestNs", "greatest", ".1f"),
                 ("nsOver", "over plain ns", ".1f"), ("toGuard", "to guard alone", ".3f")])
    bench.note("least: of the medians of several loops in turn, which other load on the machine disturbs least")


def run(bench):
    for who in everybody():
        trapped(bench, who, bench.folder(who))
    untrapped(bench)
