"""work: real jobs outside and inside each runner, and under bwrap's plain profile."""
import os
import shutil

from measure import RUNNERS, bwrap_plain, everybody, output

import calls
import jobs
import peers

WRITES = CHMODS = 10_000
PACKAGES, FILES_EACH = 20, 40
TREE_FILES = 20_000


def prefixes(bench, who, folder):
    found = {"plain": []}
    if bench.usable(who, folder, bwrap_plain(folder) + ["/bin/true"]):
        found["plain-bwrap"] = bwrap_plain
    options = ["--no-observe"] if bench.settings.no_observe else []
    for runner in RUNNERS:
        command = calls.run_under(bench, runner, *options)
        if bench.usable(who, folder, [*command, "/bin/true"]):
            found[runner] = command
    if bench.settings.peers:
        found.update(peers.prefixes(bench, who))
    return found


def put_npm(folder):
    """A project that depends on packages beside it: npm copies and links, and needs no registry."""
    names = []
    for i in range(PACKAGES):
        package = folder / "packages" / f"p{i}"
        package.mkdir(parents=True)
        (package / "package.json").write_text(f'{{"name":"p{i}","version":"1.0.0"}}\n')
        for j in range(FILES_EACH):
            (package / f"f{j}.js").write_text(f"module.exports = {j};\n")
        names.append(f'"p{i}": "file:packages/p{i}"')
    (folder / "package.json").write_text('{"name":"project","version":"1.0.0","dependencies":{'
                                         + ", ".join(names) + "}}\n")


def npm(bench, who, found):
    if not shutil.which("npm"):
        bench.note("npm is not installed")
        return
    home = bench.folder(who, "npm-home")
    job = ["env", f"HOME={home}", "npm", "install", "--offline", "--install-links", "--no-audit", "--no-fund", "--silent",
           "--cache", "./.npm-cache"]
    show(bench, who, found, f"npm install, {PACKAGES} packages of {FILES_EACH} files", job, put_npm, bench.rounds(2, 7))


def git(bench, who, found):
    if not shutil.which("git"):
        bench.note("git is not installed")
        return
    tree = bench.folder(who, "tree")
    for i in range(TREE_FILES):
        if i % 200 == 0:
            part = tree / f"d{i // 200}"
            part.mkdir()
        (part / f"f{i}").write_text(f"{i}\n")
    jobs.give_all(tree, who)
    environment = {**os.environ, "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    for words in (["init", "-q"], ["add", "."], ["-c", "user.name=bench", "-c", "user.email=bench@localhost", "commit",
                                                "-qm", "tree"]):
        output([*who.prefix, "git", *words], cwd=tree, env=environment)
    show(bench, who, found, f"git status, {TREE_FILES} files",
         ["env", "HOME=/nonexistent", "git", "-C", str(tree), "status", "--porcelain"], lambda folder: None,
         bench.rounds(3, 15))


def put_file(folder):
    (folder / "w").mkdir()
    (folder / "file").touch()


def show(bench, who, found, title, job, put, rounds):
    rows, _ = jobs.compare(bench, who, found, job, put, rounds)
    bwrap = rows.get("plain-bwrap")
    for row in rows.values():
        row["toBwrap"] = row["median"] / bwrap["median"] if bwrap else None
    bench.table(f"{title}, as {who.name}", rows, jobs.COLUMNS + [("toBwrap", "to plain bwrap", ".3f")])


def run(bench):
    who = everybody()[-1]
    found = prefixes(bench, who, bench.folder(who))
    show(bench, who, found, f"C build of {jobs.SOURCES} files, make -j2", ["make", "-sj2"], jobs.put_sources,
         bench.rounds(2, 9))
    npm(bench, who, found)
    git(bench, who, found)
    program = bench.program("calls")
    show(bench, who, found, f"{WRITES} small writes", [program, "files", str(WRITES), "w"], put_file, bench.rounds(3, 9))
    show(bench, who, found, f"{CHMODS} chmods", [program, "chmod", str(CHMODS), "file"], put_file, bench.rounds(3, 9))

