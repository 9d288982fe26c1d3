"""The library's binary interface, pinned: exported symbols, and every number that a compiled caller has in it.

A change here breaks programs that were compiled before: new symbols and rows are added, old ones stay.
"""
import os
import re
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
TOP = HERE.parents[1]
PREFIX = Path(os.environ.get("CONFINE_PREFIX", TOP / "build" / "out"))
LIBRARY = os.environ.get("CONFINE_LIB", PREFIX / "lib" / "libconfine.so")
HEADERS = sorted((PREFIX / "include" / "confine").glob("*.h"))
ROWS = HERE / "numbers.txt"


def run(*command, **options):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=60, check=False, **options)
    assert done.returncode == 0, done.stdout.decode()
    return done.stdout.decode()


def declared():
    """Names of functions in the installed headers."""
    return {name for header in HEADERS
            for name in re.findall(r"CONFINE_API\s[^;(]*?(confine_\w+)\(", header.read_text())}


def rows():
    """(expression, value) of each row."""
    for line in ROWS.read_text().splitlines():
        if line and not line.startswith("#"):
            expression, _, value = line.rpartition(" = ")
            yield expression, value


def test_symbols():
    lines = run("nm", "-D", "--defined-only", str(LIBRARY)).splitlines()
    exported = {line.split()[-1] for line in lines}
    pinned = set((HERE / "symbols.txt").read_text().split())
    assert exported == pinned
    assert exported == declared()


def test_the_symbols_are_listed_in_order():
    words = (HERE / "symbols.txt").read_text().split()
    assert words == sorted(set(words))


def test_numbers(tmp_path):
    source = tmp_path / "numbers.c"
    lines = ["#include <confine/confine.h>", "#include <stddef.h>", "#include <stdint.h>"]
    lines += [f'_Static_assert(({expression}) == ({value}), "{expression} is not {value}");' for expression, value in rows()]
    source.write_text("\n".join(lines) + "\n")
    run("gcc", "-std=c11", "-fsyntax-only", f"-I{PREFIX}/include", str(source))


def test_every_number_is_pinned():
    pinned = {expression for expression, _ in rows()}
    wanted = set()
    for header in HEADERS:
        text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
        wanted |= set(re.findall(r"\b(CONFINE_[A-Z0-9_]+) = ", text))
        wanted |= set(re.findall(r"#define (CONFINE_[A-Z0-9_]+_MAX) ", text))
        for body, name in re.findall(r"typedef struct confine_\w+ \{(.*?)\} (confine_\w+);", text, re.S):
            wanted.add(f"sizeof({name})")
            fields = re.findall(r"(\w+)(?:\[\w+\])?;", body)
            wanted |= {f"offsetof({name}, {field})" for field in fields}
    assert wanted == pinned


PROGRAM = """
#include <confine/confine.h>
#include <stdio.h>
int main(void) {
  confine_error error = CONFINE_ERROR_INIT;
  confine_settings settings = CONFINE_SETTINGS_INIT;
  confine_provider *provider = NULL;
  if (confine_provider_new(&settings, &provider, &error) < 0) {
    puts(error.text);
    return 1;
  }
  confine_provider_free(provider);
  return puts(confine_mode_name(CONFINE_MODE_READ_ONLY)) < 0;
}
"""


@pytest.mark.parametrize("compiler, suffix", [("gcc", ".c"), ("g++", ".cc")])
def test_pkg_config(tmp_path, compiler, suffix):
    environment = dict(os.environ, PKG_CONFIG_PATH=str(PREFIX / "lib" / "pkgconfig"), LD_LIBRARY_PATH=str(PREFIX / "lib"))
    flags = run("pkg-config", "--cflags", "--libs", "confine", env=environment).split()
    source, program = tmp_path / f"use{suffix}", tmp_path / "use"
    source.write_text(PROGRAM)
    run(compiler, "-Wall", "-Wextra", "-Werror", "-o", str(program), str(source), *flags)
    assert run(str(program), env=environment) == "read-only\n"
