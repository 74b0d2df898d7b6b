#!/usr/bin/env python3
"""Static analysis (.clang-tidy) of the folders that are held clean. usage: scripts/tidy.py FOLDER...

Most of its time goes into the headers of a file, which the neighbours have as well: where the build compiles files together
(CAMSHAFT_UNITY), they are read together, in a quarter of the time. Two checks look at the main file alone: the files that could
concern them are read once more for these.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/lint"

# The release build's, of another compiler: precompiled headers and warnings this one does not know.
FOREIGN = re.compile(
    r" (-Winvalid-pch|--param=\S+|-fpch-preprocess|-Wno-array-bounds|-Wno-restrict|-Wno-stringop-overflow|-Wno-stringop-overread"
    r'|-include [^ "]*cmake_pch\.hxx)'
)
MAIN_FILE_ONLY = "-*,misc-unused-using-decls,misc-unused-alias-decls"
DECLARES_A_NAME = re.compile(r"^\s*(using [\w:]+::\w+;|namespace \w+ = )", re.M)
NOISE = re.compile(r"warnings? generated|Suppressed|Use -header-filter")


def write_commands():
    """build/lint/compile_commands.json, with the files of every unit beside it; file -> the unit it is compiled in."""
    entries = json.loads((ROOT / "build/release/compile_commands.json").read_text())
    unit_of = {}
    for entry in list(entries):
        unit = entry["file"]
        if "/Unity/unity_" not in unit:
            continue
        for name in re.findall(r'#include "(.*)"', pathlib.Path(unit).read_text()):
            unit_of.setdefault(name, unit)
            entries.append({**entry, "file": name, "command": entry["command"].replace(unit, name)})
    for entry in entries:
        entry["command"] = FOREIGN.sub("", entry["command"])
    BUILD.mkdir(parents=True, exist_ok=True)
    (BUILD / "compile_commands.json").write_text(json.dumps(entries))
    return unit_of


def sources(folder):
    listed = subprocess.run(["git", "ls-files", f"src/{folder}/*.cpp"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [str(ROOT / name) for name in listed.stdout.split() if not name.endswith("_test.cpp")]


def tidy(checks, names):
    run = subprocess.run(["clang-tidy", "-p", str(BUILD), "--quiet", f"--checks={checks}", *names],
                         cwd=ROOT, capture_output=True, text=True)
    said = run.stdout + "".join(line + "\n" for line in run.stderr.splitlines() if not NOISE.search(line))
    return said if run.returncode != 0 else ""


def jobs(unit_of, folders):
    files = [name for folder in folders for name in sources(folder)]
    units = dict.fromkeys(unit_of.get(name, name) for name in files)
    again = [name for name in files if name in unit_of and DECLARES_A_NAME.search(pathlib.Path(name).read_text())]
    # A unit includes sources: that is what it is for.
    yield from (("-bugprone-suspicious-include" if unit not in files else "", [unit]) for unit in units)
    yield from ((MAIN_FILE_ONLY, again[at : at + 4]) for at in range(0, len(again), 4))


def main():
    unit_of = write_commands()
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        found = [text for text in pool.map(lambda job: tidy(*job), jobs(unit_of, sys.argv[1:])) if text]
    print("".join(found), end="")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
