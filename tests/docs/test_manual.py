"""The manual and the programs say the same: options, functions, constants and words."""
import re
import socket
import subprocess
from pathlib import Path

import pytest

from examples import DOCUMENTS, PAGES, PREFIX, TOP, read

LAUNCHERS = PREFIX / "libexec" / "confine"
HEADERS = sorted((TOP / "include" / "confine").glob("*.h"))
OWN_PAGE = re.compile(r"((?:lib)?confine[\w-]*|landlock-run|namespace-run)\*?\(([1-8])\)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


def page(name):
    return read(TOP / "man" / f"{name}.scd")


def plain(text):
    """scdoc's text without its marks."""
    return re.sub(r"\\(.)", r"\1", text).replace("*", "").replace("_", "")


def words(text):
    return " ".join(text.split()).replace("( ", "(")


def code(text):
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


def defined_options(text):
    """Those that a page explains: at the head of a definition."""
    heads = re.findall(r"^\*--.*$", text, re.M)
    return {option for head in heads for option in OPTION.findall(head)}


def confine(*arguments):
    return run([PREFIX / "bin" / "confine", *arguments])


def run(argv):
    """Exit status and both streams."""
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=60, check=False)
    return done.returncode, done.stdout.decode()


def commands():
    _, text = confine("--help")
    return re.findall(r"^  ([a-z]+) ", text, re.M)


def section(text, title):
    return re.search(rf"^#+ {title}\n(.*?)(?=^# |^## |\Z)", text, re.M | re.S)[1]


def test_options_of_confine():
    helps = {name: set(OPTION.findall(confine(name, "--help")[1])) for name in commands()}
    assert set().union(*helps.values()) == defined_options(page("confine.1"))


def test_commands_of_confine():
    synopsis = section(page("confine.1"), "SYNOPSIS")
    assert set(re.findall(r"^\*confine ([a-z]+)\*", synopsis, re.M)) == set(commands())


@pytest.mark.parametrize("launcher", ["landlock-run", "namespace-run"])
def test_options_of_launchers(launcher):
    """What a launcher compares its arguments with is in its page, but what it says to itself."""
    sources = [TOP / "launcher" / f"{launcher}.c", TOP / "launcher" / "options.c"]
    compared = set(re.findall(r'strcmp\([^;"]*, "(--[a-z-]+)"\)', "".join(map(read, sources))))
    assert compared - {"--probed"} == defined_options(page(f"{launcher}.1"))


@pytest.mark.parametrize("launcher", ["landlock-run", "namespace-run"])
def test_options_in_pages_exist(launcher):
    for option in defined_options(page(f"{launcher}.1")):
        assert "unknown argument" not in run([LAUNCHERS / launcher, option])[1], option


def prototypes():
    for header in HEADERS:
        yield from re.findall(r"CONFINE_API\s+([^;]*?\bconfine_\w+\([^;]*\);)", code(read(header)))


def test_functions():
    """Each public function's declaration is in some page of section 3, as it is in the header."""
    pages = words(" ".join(read(path) for path in PAGES if path.name.endswith(".3.scd")))
    found = list(prototypes())
    assert len(found) > 60
    assert [declared for declared in found if words(declared) not in pages] == []


def test_functions_are_described():
    """And is spoken of beside its declaration."""
    for path in PAGES:
        if path.name.endswith(".3.scd"):
            text = read(path)
            described = plain(re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S))
            for name in re.findall(r"\b(confine_\w+)\(", section(text, "SYNOPSIS")):
                assert plain(name) in described, f"{path.name}: {name}"


def test_structures():
    """Fields in the pages are those of the headers, in the same order."""
    pages = words(" ".join(read(path) for path in PAGES))
    headers = " ".join(code(read(header)) for header in HEADERS)
    structures = re.findall(r"typedef struct \w+ \{.*?\} \w+;", headers, re.S)
    assert len(structures) > 5
    assert [found for found in structures if words(found) not in pages] == []


def test_constants():
    names = set()
    for header in HEADERS:
        text = code(read(header))
        names |= set(re.findall(r"^  (CONFINE_\w+) = ", text, re.M))
        names |= set(re.findall(r"^#define (CONFINE_\w+) ", text, re.M)) - {"CONFINE_API"}
    pages = " ".join(read(path) for path in PAGES).replace("\\_", "_")
    assert [name for name in sorted(names) if not re.search(rf"\b{name}\b", pages)] == []


def constants_in(path, pattern):
    return re.findall(pattern, read(TOP / path))


def test_words_of_results():
    results = page("confine-results.5")
    steps = constants_in("src/enter/enter.c", r'\[CONFINE__STEP_\w+\] = "([a-z-]+)"')
    assert set(steps) == set(re.findall(r"_([a-z-]+)_", section(results, "Steps")))
    notices = [code for path in sorted((TOP / "src").rglob("*.c"))
               for code in re.findall(r'confine__result_notice\([^;"]*"([a-z-]+)"', read(path))]
    assert notices
    for notice in notices:
        assert f"*{notice}*" in results, notice


def test_gaps():
    """Each gap's word is explained where gaps are, and in the table of the C names."""
    table = re.search(r"confine_gap_name.*?\};", read(TOP / "src" / "runner" / "runner.c"), re.S)[0]
    for word in re.findall(r'"([a-z-]+)"', table):
        assert re.search(rf"^[|:]  .*\b{word}\b", page("confine-policy.5"), re.M), word
        assert f":  {word}\n" in page("confine_provider.3"), word


def table(text, columns):
    """Rows of a table in scdoc, without its head: lists of cells."""
    rows = re.findall(r"^\|  (.*)\n" + r":  (.*)\n" * (columns - 1), text, re.M)
    return [list(row) for row in rows]


def test_isolation(tmp_path):
    """What the table of runners says can be isolated is what the program accepts."""
    rows = table(section(page("confine.1"), "RUNNERS"), 4)
    assert [row[0] for row in rows] == ["namespace", "bwrap", "landlock", "custom"]
    for name, _, _, can in rows:
        if name == "custom":
            continue
        for what in ("network", "process", "ipc"):
            status, text = confine("wrap", "--runner", name, "--isolate", what,
                                   "--workspace", tmp_path, "--", "true")
            assert (status == 0) == (what in can), f"{name} {what}: {text}"


def test_open_by_design():
    """SECURITY.md's list is the one of the escape techniques, word and channel."""
    text = read(TOP / "SECURITY.md")
    listed = re.search(r"<!-- by-design: begin -->\n(.*)<!-- by-design: end -->", text, re.S)[1]
    said = {tuple(cell.strip(" `") for cell in line.split("|")[1:3])
            for line in listed.splitlines()[2:]}
    _, listing = run([LAUNCHERS / "escape-suite", "--list"])
    rows = [line.split("\t") for line in listing.splitlines()]
    assert said == {(row[2], row[3].replace("-", "")) for row in rows if row[2] != "-"}


def test_absent_is_absent():
    """What README says is not there is refused."""
    absent = section(read(TOP / "README.md"), "Not there yet")
    for name in re.findall(r"`confine ([a-z]+)`", absent):
        assert confine(name, "--help")[0] == 125, name
    for option in re.findall(r"`(--[a-z-]+)`", absent):
        assert "unknown option" in confine("run", option, "x", "--", "true")[1], option


def test_folders():
    """docs/architecture.md has a sentence on each folder of the flow."""
    text = read(TOP / "docs" / "architecture.md")
    for folder in [*(TOP / "src").iterdir(), TOP / "launcher", TOP / "cli", TOP / "guard"]:
        if folder.is_dir():
            assert f"| `{folder.relative_to(TOP)}` |" in text, folder


def test_manual_is_built():
    """Every page is in the list of what is built, and is installed."""
    listed = set(re.findall(r"'([\w-]+\.\d)\.scd'", read(TOP / "man" / "meson.build")))
    assert listed == {path.name.removesuffix(".scd") for path in PAGES}
    for name in listed:
        assert (PREFIX / "share" / "man" / f"man{name[-1]}" / name).is_file(), name


def test_references():
    """Pages that are referred to are there; so are the files that Markdown links to."""
    names = {path.name.removesuffix(".scd") for path in PAGES}
    functions = re.findall(r"\b(confine_\w+)\(", " ".join(prototypes()))
    for path in DOCUMENTS:
        text = read(path)
        for name, number in OWN_PAGE.findall(text):
            assert f"{name}.{number}" in names or name in functions, f"{path.name}: {name}"
        for target in re.findall(r"\]\(([^)#:]+)\)", text) if path.suffix == ".md" else []:
            assert (path.parent / target).exists(), f"{path.name}: {target}"


# First parts of absolute paths that mean the same on every machine, or nothing.
KNOWN = {"bin", "dev", "etc", "no", "proc", "srv", "sys", "tmp", "usr", "var"}


def test_no_place_of_this_machine():
    strange = [name for name in (socket.gethostname(), str(TOP), str(Path.home())) if len(name) > 3]
    for path in DOCUMENTS:
        text = read(path)
        for first in re.findall(r"(?<![\w./~$)}%\"-])/([A-Za-z]\w*)", text):
            assert first in KNOWN, f"{path.name}: /{first}"
        for name in strange:
            assert not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text), f"{path.name}: {name}"
