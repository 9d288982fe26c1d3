"""The examples of the manual and of README do what they say."""
import json
import shutil
import tempfile
from pathlib import Path

import pytest

import examples

FOUND = list(examples.find())
REAL = {
    "record": ["confine", "run", "--report", "/dev/stdout", "--", "true"],
    "wrap": ["confine", "wrap", "--", "true"],
    "learn": ["confine", "learn", "--json", "--", "true"],
    "doctor": ["confine", "doctor", "--json"],
}


@pytest.fixture
def folder():
    """Not below /tmp, which runners replace; other users may look in."""
    made = Path(tempfile.mkdtemp(prefix="confine-docs-", dir="/var/tmp"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def keys(value):
    """The names in a JSON value, with the lists' elements taken together."""
    if isinstance(value, dict):
        return {name: keys(inner) for name, inner in value.items()}
    if isinstance(value, list):
        together = {}
        for inner in value:
            found = keys(inner)
            together.update(found if isinstance(found, dict) else {})
        return together
    return None


def test_marked_blocks_are_found():
    assert len(FOUND) == examples.marks()


def run_file(folder, name, text, argv):
    (folder / "here").mkdir()
    (folder / "here" / name).write_text(text)
    status, printed = examples.run(folder, argv)
    assert status == 0, printed


def check_sample(folder, kind, block):
    """No key may be there that the program does not give, and none missing. Lists that are empty in
    real output say nothing of what their elements hold."""
    status, printed = examples.run(folder, REAL[kind])
    assert status == 0, printed
    sample, real = json.loads(block), json.loads(printed)
    assert sample["schema"] == real["schema"]
    assert list(sample) == list(real)
    for name, value in keys(real).items():
        if value:
            assert keys(sample)[name] == value


@pytest.mark.parametrize("example", FOUND, ids=[found.name for found in FOUND])
def test_example(example, folder):
    if example.kind == "transcript":
        wrong = examples.play(folder, example.block)
        assert not wrong, wrong
    elif example.kind == "python":
        run_file(folder, "example.py", example.block, ["python3", "example.py"])
    elif example.kind == "c":
        run_file(folder, "example.c", example.block,
                 ["sh", "-c", "cc -Wall -Wextra -Werror -o example example.c "
                              "$(pkg-config --cflags --libs confine) && ./example"])
    elif example.kind == "yaml":
        run_file(folder, "confine.yaml", example.block,
                 ["sh", "-c", "mkdir project cache && confine wrap --config confine.yaml -- true"])
    elif example.kind in REAL:
        check_sample(folder, example.kind, example.block)
    else:
        pytest.fail(f"unknown kind of example: {example.kind}")
