"""What the benches of single calls share: the loops of calls.c, in turn, outside and inside."""
from measure import output

COLUMNS = [("median", "median us", ".2f"), ("p10", "p10", ".2f"), ("p90", "p90", ".2f"), ("over", "over outside us", ".2f")]


def once(bench, who, folder, command, words):
    """Median, 10th and 90th percentile of one loop, in microseconds a call."""
    text = output([*who.prefix, *command, bench.program("calls"), *words], cwd=folder)
    return [float(word) / 1000 for word in text.split()]


def in_turn(bench, who, folder, cases, rounds):
    """cases: {name: (command before the loop, its words)}. Each row is of the middle one of several loops."""
    found = {name: [] for name in cases}
    for _ in range(rounds):
        for name, (command, words) in cases.items():
            found[name].append(once(bench, who, folder, command, words))
    rows = {}
    for name, values in found.items():
        median, low, high = sorted(values)[len(values) // 2]
        rows[name] = {"median": median, "p10": low, "p90": high, "least": min(value[0] for value in values),
                      "greatest": max(value[0] for value in values)}
    return rows


def run_under(bench, runner, *options):
    return [bench.confine, "run", "--runner", runner, *options, "--"]
