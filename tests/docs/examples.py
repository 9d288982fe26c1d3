"""Examples in the documentation: found by a mark before a literal block, and run.

In scdoc the mark is a comment, `; test: KIND`, in Markdown `<!-- test: KIND -->`; what follows
it is a block between lines of three backquotes. The kinds:

    transcript   lines after `$ ` are commands for one shell, the lines after each what it prints on
                 both streams, where `...` stands for anything
    python, c    a whole program that must exit 0; c is compiled with pkg-config's flags for confine
    yaml         a configuration file that must be accepted
    record, wrap, learn, doctor    a sample of the JSON, whose keys must be those of real output
"""
import os
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

TOP = Path(__file__).resolve().parents[2]
PREFIX = Path(os.environ.get("CONFINE_PREFIX", TOP / "build" / "out"))
PAGES = sorted((TOP / "man").glob("*.scd"))
TEXTS = [TOP / "README.md", TOP / "SECURITY.md", TOP / "CHANGELOG.md",
         *sorted((TOP / "docs").glob("*.md"))]
DOCUMENTS = [*TEXTS, *PAGES]

MARK = re.compile(r"(?:; test: (?P<page>[^\n]*)|<!-- test: (?P<text>[^\n]*) -->)\n+"
                  r"```\w*\n(?P<block>.*?)^```$", re.M | re.S)
LIMIT = 60


class Example(NamedTuple):
    name: str
    kind: str
    block: str


def read(path):
    return path.read_text(encoding="utf-8")


def find():
    for path in DOCUMENTS:
        text = read(path)
        for match in MARK.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            yield Example(f"{path.name}:{line}", match["page"] or match["text"], match["block"])


def marks():
    """How many blocks say that they are to be tested."""
    return sum(len(re.findall(r"^(?:; |<!-- )test: ", read(path), re.M)) for path in DOCUMENTS)


def environment(folder):
    """Programs of the installed copy first; a home of its own beside the current directory."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    return {
        "PATH": f"{PREFIX}/bin:{PREFIX}/libexec/confine:/usr/bin:/bin:/usr/sbin:/sbin",
        "HOME": str(home),
        "LC_ALL": "C.UTF-8",
        "PKG_CONFIG_PATH": str(PREFIX / "lib" / "pkgconfig"),
        "LD_LIBRARY_PATH": str(PREFIX / "lib"),
    }


def run(folder, argv):
    """Exit status and both streams of a program started in folder/here."""
    here = folder / "here"
    here.mkdir(exist_ok=True)
    done = subprocess.run(argv, cwd=here, env=environment(folder), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT,
                          check=False)
    return done.returncode, done.stdout.decode()


def steps(block):
    """(command, what it prints) of a transcript."""
    found = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return [(command, "\n".join(printed)) for command, printed in found]


def matches(wanted, got):
    pattern = ".*".join(re.escape(part) for part in wanted.split("..."))
    return re.fullmatch(pattern, got.rstrip("\n"), re.S) is not None


def play(folder, block):
    """Plays a transcript in one shell; returns what did not come out as printed."""
    separator = "--- end of step ---"
    wanted = steps(block.replace("./dev run", "confine run"))
    # The status of a step must reach the next one, as at a prompt.
    script = "\n".join(f"{command}\nstatus=$?; echo; echo '{separator}'; (exit $status)"
                       for command, _ in wanted)
    _, text = run(folder, ["sh", "-c", script])
    got = text.split(f"\n{separator}\n")
    wrong = [f"$ {command}\nprinted:\n{printed}\nwanted:\n{want}"
             for (command, want), printed in zip(wanted, got) if not matches(want, printed)]
    if len(got) != len(wanted) + 1:
        wrong.append(f"ended early:\n{text}")
    return "\n".join(wrong)
