"""start: what it costs to start a command, under every runner and in every form."""
from measure import RUNNERS, TIMES, add_ratios, bwrap_plain, everybody

import peers

COMMAND = ["/bin/true"]
MOUNTS = 250
FILES = 100_000
# Growth with the host's mounts is the kernel's copy of them; ours may be this much more.
GROWTH_LIMIT = 1.15
# What the forms of a launcher by itself do without.
WITH_MONITOR = ("--monitor", "--supervise", "--observe")


def plain_and_bwrap(bench, who, folder):
    cases = [("plain", COMMAND)]
    bwrap = bwrap_plain(folder) + COMMAND
    if bench.usable(who, folder, bwrap):
        cases.append(("plain-bwrap", bwrap))
    return cases


def all_forms(bench, who, folder):
    cases = plain_and_bwrap(bench, who, folder)
    cases.append(("bare-exec", [bench.program("bare"), "-", *COMMAND]))
    cases.append(("bare-status", [bench.program("bare"), "+", *COMMAND]))
    cases.append(("bare-namespace", [bench.program("bare"), str(folder), *COMMAND]))
    for runner in RUNNERS:
        cases.append((f"run-{runner}", [bench.confine, "run", "--runner", runner, "--", *COMMAND]))
    for runner in RUNNERS:
        argv = bench.wrapped(who, folder, runner, COMMAND)
        if argv:
            cases.append((f"wrapped-{runner}", argv))
        if argv and runner != "bwrap":
            cases.append((f"launcher-{runner}", [word for word in argv if word not in WITH_MONITOR]))
    return [(name, argv) for name, argv in cases if bench.usable(who, folder, argv)]


def forms(bench):
    for who in everybody():
        folder = bench.folder(who)
        rows = bench.spin(who, folder, all_forms(bench, who, folder), bench.rounds(200, 1000))
        bench.table(f"start as {who.name}", rows, TIMES)


def growth(bench):
    """From no to 250 mounts more on the host, beside the bare sequence's growth: of the 10th percentiles, since a
    difference of two medians is mostly noise."""
    who = everybody()[0]
    if who.name != "root":
        bench.note("growth with the host's mounts: only root can make a host with more of them")
        return
    folder = bench.folder(who)
    cases = [case for case in all_forms(bench, who, folder)
             if case[0] in ("plain", "plain-bwrap", "bare-namespace", "run-namespace", "wrapped-namespace", "run-landlock")]
    crowd = bench.folder(who, "crowd")
    totals = {name: [] for name, _ in cases}
    for _ in range(bench.rounds(3, 9)):
        few, many = (bench.spin(who, folder, cases, bench.rounds(60, 200),
                                before=[bench.program("crowd"), str(count), str(crowd)]) for count in (0, MOUNTS))
        for name in totals:
            totals[name].append((few[name]["p10Us"], many[name]["p10Us"]))
    rows = {}
    for name, pairs in totals.items():
        grown = sorted(many - few for few, many in pairs)
        middle = len(pairs) // 2
        rows[name] = {"few": sorted(few for few, _ in pairs)[middle], "many": sorted(many for _, many in pairs)[middle],
                      "grown": grown[middle], "least": grown[0], "greatest": grown[-1]}
    bare = rows["bare-namespace"]["grown"]
    for row in rows.values():
        row["toBare"] = row["grown"] / bare
    bench.table(f"start with {MOUNTS} mounts more", rows,
                [("few", "0 more us", ".0f"), ("many", f"{MOUNTS} more us", ".0f"), ("grown", "growth us", ".0f"),
                 ("least", "least", ".0f"), ("greatest", "greatest", ".0f"), ("toBare", "to bare", ".2f")])
    for name in ("run-namespace", "wrapped-namespace"):
        if name in rows and rows[name]["toBare"] > GROWTH_LIMIT:
            bench.note(f"{name} grows {rows[name]['toBare']:.2f} times as much as the bare sequence "
                       f"(limit {GROWTH_LIMIT})")


def large(bench):
    """An empty workspace beside one of 100,000 files."""
    who = everybody()[-1]
    folder, full = bench.folder(who), bench.folder(who, "large")
    for i in range(FILES):
        if i % 1000 == 0:
            part = full / str(i // 1000)
            part.mkdir(exist_ok=True)
        (part / str(i)).touch()
    cases = [("plain", COMMAND)]
    for runner in RUNNERS:
        for name, place in (("empty", folder), ("full", full)):
            command = [bench.confine, "run", "--runner", runner, "--workspace", str(place), "--", *COMMAND]
            if bench.usable(who, folder, command):
                cases.append((f"{runner}-{name}", command))
    rows = add_ratios(bench.spin(who, folder, cases, bench.rounds(100, 400)))
    for name, row in rows.items():
        runner, _, kind = name.partition("-")
        row["toEmpty"] = row["medianUs"] / rows[f"{runner}-empty"]["medianUs"] if kind == "full" else None
    bench.table(f"workspace of {FILES} files, as {who.name}", rows, TIMES[:5] + [("toEmpty", "to empty", ".2f")])


def beside_peers(bench):
    who = everybody()[-1]
    folder = bench.folder(who)
    cases = [case for case in all_forms(bench, who, folder)
             if case[0] in ("plain", "plain-bwrap", "run-namespace", "run-landlock", "launcher-landlock")]
    cases += [(name.replace(" ", "-"), prefix(folder) + COMMAND) for name, prefix in peers.prefixes(bench, who).items()]
    bench.table(f"start beside peers, as {who.name}", bench.spin(who, folder, cases, bench.rounds(25, 100)), TIMES)


def run(bench):
    forms(bench)
    if bench.settings.peers:
        beside_peers(bench)
    growth(bench)
    large(bench)
