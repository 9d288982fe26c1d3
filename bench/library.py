"""confine: what one confine() call of the library costs, and whether memory or descriptors grow."""
import json

from measure import HERE, TOP, everybody, output


def run(bench):
    bench.confine  # makes the copy that has the library
    installed = bench.scratch / "installed"
    program = bench.scratch / "bench-confine"
    output(["cc", "-O2", "-std=c11", "-D_GNU_SOURCE=", f"-I{TOP}/include", "-o", program, HERE / "confine.c",
            f"-L{installed}/lib", "-lconfine", f"-Wl,-rpath,{installed}/lib"])
    rows = {}
    # Its own exit status says whether a limit is crossed; the table shows it too.
    text = output(["sh", "-c", '"$0" "$@" || :', program, "--json", str(bench.rounds(200_000, 1_000_000))],
                  cwd=bench.folder(everybody()[0]))
    for line in text.splitlines():
        found = json.loads(line)
        rows[found["runner"]] = found
        if found["medianUs"] > found["limitUs"]:
            bench.note(f"{found['runner']}: more than {found['limitUs']} us")
    bench.table("confine()", rows, [("calls", "calls", "d"), ("medianUs", "median us", ".3f"),
                                    ("worstBatchUs", "worst thousand", ".3f"), ("growthKiB", "grew KiB", "d"),
                                    ("descriptors", "descriptors", "d")])
