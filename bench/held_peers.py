#!/usr/bin/env python3
"""ONNX Runtime and OpenVINO held to AVX2, on a machine that has more.

    bench/held_peers.py                     # prepares build/held_peers and says what it sets
    bench/held_peers.py COMMAND ARGUMENTS   # runs a command whose onnxruntime and openvino see AVX2

ONNX Runtime has no option for it, and what OpenVINO's option reaches is oneDNN alone. Both ask the processor by the CPUID instruction: copies of
the installed packages get an invalid instruction in its place, and a library loaded first (held_peers.c) answers it without AVX-VNNI, AVX-512 and
AMX. The copies stay in build/, are made again when the packages change, and are for measuring only. Where the processor has no more than AVX2
nothing changes. Needs gcc and objdump."""

import importlib.metadata
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "held_peers"
PACKAGES = ("onnxruntime", "openvino")
CPUID, INVALID = b"\x0f\xa2", b"\x0f\x0b"  # INVALID is UD2


def text_section(library):
    """Address and offset in the file of .text, or None."""
    headers = subprocess.run(["objdump", "-h", str(library)], capture_output=True, text=True).stdout
    found = re.search(r" \.text +\w+ +(\w+) +\w+ +(\w+)", headers)
    return found and (int(found[1], 16), int(found[2], 16))


def replace_cpuid(library):
    """Every CPUID instruction of the library becomes INVALID; gives how many."""
    section = text_section(library)
    data, count = bytearray(library.read_bytes()), 0
    if not section or CPUID not in data:
        return 0
    address, offset = section
    with subprocess.Popen(["objdump", "-d", "-j", ".text", "--no-show-raw-insn", str(library)], stdout=subprocess.PIPE, text=True) as listing:
        for line in listing.stdout:
            if not line.rstrip().endswith("\tcpuid"):
                continue
            at = int(line.split(":")[0], 16) - address + offset
            assert data[at:at + 2] == CPUID, f"{library}: {line}"
            data[at:at + 2] = INVALID
            count += 1
    if count:
        library.write_bytes(data)
    return count


def package_folder(name):
    found = importlib.util.find_spec(name)
    return found and pathlib.Path(found.origin).parent


def prepare(name):
    """A copy of an installed package that sees AVX2, made once per version."""
    source, target = package_folder(name), FOLDER / name
    if source is None or source == target:
        return
    version, stamp = importlib.metadata.version(name), FOLDER / f"{name}.version"
    if stamp.exists() and stamp.read_text() == version:
        return
    print(f"held_peers: a copy of {name} {version} that sees AVX2 ...", file=sys.stderr, flush=True)
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, symlinks=True)
    counts = {library.name: replace_cpuid(library) for library in sorted(target.rglob("*.so*")) if library.is_file() and not library.is_symlink()}
    if not any(counts.values()):
        raise RuntimeError(f"held_peers: no CPUID instruction found in {name}")
    stamp.write_text(version)


def environment():
    """What a process needs so that its onnxruntime and openvino see AVX2; prepares the copies."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    source, answer = ROOT / "bench" / "held_peers.c", FOLDER / "held_peers.so"
    if not answer.exists() or answer.stat().st_mtime < source.stat().st_mtime:
        subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", str(answer), str(source)], check=True)
    for name in PACKAGES:
        prepare(name)
    path = os.pathsep.join(filter(None, [str(FOLDER), os.environ.get("PYTHONPATH")]))
    return {"LD_PRELOAD": str(answer), "PYTHONPATH": path}


def main():
    if sys.argv[1:2] in (["--help"], ["-h"]):
        print(__doc__)
        return 0
    held = environment()
    if len(sys.argv) == 1:
        print(" ".join(f"{name}={value}" for name, value in held.items()))
        return 0
    return subprocess.run(sys.argv[1:], env={**os.environ, **held}).returncode


if __name__ == "__main__":
    sys.exit(main())
