#!/usr/bin/env python3
"""What a build and an engine may cost: measures, prints a table, exits 1 where a limit is broken.

    bench/limits.py [MODELS…] [--threads N] [--json out.json]

Per model, through camexec: the cold build (timing cache empty), the warm build (cache full) and whether it gives the same bytes, loading the
engine, peak memory of a run beyond weights, planned arena and workspace, and how far the layer times of a profile add up to the latency.

    cold build   15 s       for a model like ResNet-18
    warm build    1 s
    engine load  20 ms
    memory       weights + arena + workspace + 30 MiB
    layer sum    within 5 % of the median latency

Without models: those of ../shared/models that are there, and any ONNX file named on the command line."""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("CAMSHAFT_BUILD", ROOT / "build" / "release"))
CAMEXEC = BUILD / "bin" / "camexec"
SHARED = pathlib.Path(os.environ.get("CAMSHAFT_SHARED", ROOT.parent / "shared"))
LIMITS = {"cold_s": 15, "warm_s": 1, "load_ms": 20, "extra_mib": 30, "sum_percent": 5}
ATTEMPTS = 3  # of the profile: other programs only ever add time


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="ONNX files, or names under shared/models")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.5, help="length of the measuring run")
    parser.add_argument("--json", help="write the figures here")
    return parser.parse_args()


def model_file(name):
    path = pathlib.Path(name)
    return path if path.is_file() else SHARED / "models" / name / "model.onnx"


def run(*options):
    """Output and peak resident memory in bytes of one camexec run."""
    peak = 0
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen([str(CAMEXEC), *map(str, options)], stdout=output, stderr=subprocess.STDOUT)
        # rusage would count what this interpreter had before exec.
        while process.poll() is None:
            try:
                status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
                name, high = re.search(r"Name:\s*(\S+)", status), re.search(r"VmHWM:\s*([0-9]+) kB", status)
                if high and name and name.group(1) == CAMEXEC.name:
                    peak = max(peak, int(high.group(1)) * 1024)
            except OSError:
                pass
            time.sleep(0.01)
        output.seek(0)
        text = output.read()
    if process.returncode:
        errors = [line for line in text.splitlines() if "] [E]" in line]
        raise RuntimeError((errors or text.strip().splitlines() or ["no output"])[-1])
    return text, peak


def number(pattern, text):
    found = re.search(pattern, text)
    if not found:
        raise RuntimeError(f"no line like {pattern}")
    return float(found.group(1))


def timed_build(model, threads, engine, cache):
    start = time.perf_counter()
    run(f"--onnx={model}", f"--saveEngine={engine}", f"--timingCacheFile={cache}", f"--numThreads={threads}", "--skipInference")
    return time.perf_counter() - start


def layer_sum_percent(engine, threads, seconds, folder):
    """How far the sum of the median layer times is from the median latency; the best of some attempts."""
    best = None
    for _ in range(ATTEMPTS):
        profile = folder / "profile.json"
        text, _ = run(f"--loadEngine={engine}", f"--numThreads={threads}", f"--duration={seconds}", "--warmUp=50", "--separateProfileRun",
                      f"--exportProfile={profile}", "--dumpProfile")
        latency = number(r"Latency: .*median = ([0-9.e+-]+) ms", text)
        layers = sum(row["medianMs"] for row in json.loads(profile.read_text()) if "name" in row)
        percent = (layers / latency - 1) * 100
        best = percent if best is None or abs(percent) < abs(best) else best
    return best


def measure(model, arguments, folder):
    threads = arguments.threads
    first, second, cache = folder / "first.engine", folder / "second.engine", folder / "cache"
    cache.unlink(missing_ok=True)
    row = {"cold_s": timed_build(model, threads, first, cache), "warm_s": timed_build(model, threads, second, cache)}
    third = folder / "third.engine"
    timed_build(model, threads, third, cache)
    row["same_bytes"] = second.read_bytes() == first.read_bytes() == third.read_bytes()
    text, peak = run(f"--loadEngine={first}", f"--numThreads={threads}", "--duration=0.2", "--warmUp=0", "--verbose")
    row["load_ms"] = number(r"Engine loaded in ([0-9.e+-]+) sec", text) * 1e3
    planned = first.stat().st_size
    planned += sum(number(pattern, text) for pattern in (r"Activation memory: ([0-9.e+-]+) MiB", r"workspace: ([0-9.e+-]+) MiB")) * 2**20
    row["extra_mib"] = (peak - planned) / 2**20
    row["sum_percent"] = layer_sum_percent(first, threads, arguments.seconds, folder)
    return row


def broken(row):
    return [name for name, limit in LIMITS.items() if abs(row[name]) > limit] + ([] if row["same_bytes"] else ["same_bytes"])


def main():
    arguments = parse_arguments()
    models = arguments.models or sorted(p.parent.name for p in (SHARED / "models").glob("*/model.onnx"))
    if not models:
        print("limits.py: name at least one model", file=sys.stderr)
        return 1
    print(f'{"model":28} {"cold s":>8} {"warm s":>8} {"same":>5} {"load ms":>8} {"extra MiB":>10} {"layer sum":>10}  limits')
    rows, failures = {}, 0
    with tempfile.TemporaryDirectory() as folder:
        for name in models:
            file = model_file(name)
            label = name if not pathlib.Path(name).is_file() else file.stem
            try:
                row = rows[label] = measure(file, arguments, pathlib.Path(folder))
            except (RuntimeError, OSError) as error:
                print(f"{label:28} {error}")
                failures += 1
                continue
            over = broken(row)
            failures += bool(over)
            print(f'{label:28} {row["cold_s"]:8.2f} {row["warm_s"]:8.2f} {"yes" if row["same_bytes"] else "NO":>5} {row["load_ms"]:8.2f} '
                  f'{row["extra_mib"]:10.1f} {row["sum_percent"]:+9.1f}%  {"over: " + ", ".join(over) if over else "kept"}', flush=True)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps({"threads": arguments.threads, "limits": LIMITS, "rows": rows}, indent=1))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
