#!/usr/bin/env python3
"""The zoo through Camshaft: is it right, and how fast beside ONNX Runtime and OpenVINO? Writes docs/zoo.md.

    make zoo [ZOO_DIR=FOLDER,…] [ZOO_PYTHON=venv/bin/python] [ZOO_ARGS="…"]
    tests/zoo/run.py FOLDER… [--only NAME,…] [--isa scalar,avx2,avx512] [--no-times] [--markdown docs/zoo.md]

A FOLDER holds networks as NAME/model.onnx with NAME/test_data_set_0 (tests/zoo/export.py writes them so). For each:

1. references: ONNX Runtime without optimizations on the stored data set, and on a second one at other extents where the network is dynamic;
2. `camshaft run` builds one engine for all its data sets on every instruction set and runs it on each: a crash, a refusal or a wrong answer is
   recorded, never fatal;
3. bench/peers.py times Camshaft, Camshaft held to AVX2, ONNX Runtime and OpenVINO in turns with one thread, at the first shape, and says how far
   the fully tuned engines are off there;
4. a profile says how many layers run and where the time goes.

Everything found is kept in --work (one result.json per network): --again renews what is named, the table is written from all of it."""

import argparse
import datetime
import fnmatch
import importlib.metadata
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tests"), str(pathlib.Path(__file__).parent)]

import data_sets  # noqa: E402
import layer_profile  # noqa: E402
import table  # noqa: E402
from instruction_sets import cpu_fact, lacking  # noqa: E402

CAMSHAFT = layer_profile.BUILD / "bin" / "camshaft"
ENGINES = "camshaft,onnxruntime,openvino_f32"
HELD_ENGINES = "camshaft_avx2,onnxruntime_avx2"  # where the processor has more


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--only", default="*", help="comma separated names, with * and ?")
    parser.add_argument("--isa", default="avx2" if "avx512" in lacking() else "avx2,avx512", help="compare on these instruction sets (scalar takes long)")
    parser.add_argument("--level", default="1", help="tuning effort of the engines that are compared; those that are timed have the default")
    parser.add_argument("--no-times", action="store_true", help="compare only")
    parser.add_argument("--no-checks", action="store_true", help="time only")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.2, help="length of one engine's turn")
    parser.add_argument("--prefix", default="", help='put before what is timed, as in "taskset -c 1"')
    parser.add_argument("--timing-cache", default="", help="Camshaft's timing cache; default: one in --work")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one program")
    parser.add_argument("--work", default=str(ROOT / "build" / "zoo"))
    parser.add_argument("--again", action="store_true", help="also what was found before, by a Camshaft of the same version")
    parser.add_argument("--markdown", help="write the table here")
    parser.add_argument("--note", default="", help="a sentence for the table's head: what else ran, what was left out")
    return parser.parse_args()


def find(folders, patterns):
    """Name -> folder; the first one wins."""
    found = {}
    for folder in folders:
        for file in sorted(pathlib.Path(folder).glob("*/model.onnx")):
            if any(fnmatch.fnmatch(file.parent.name, pattern) for pattern in patterns):
                found.setdefault(file.parent.name, file.parent.resolve())
    return dict(sorted(found.items()))


def failure(code, errors):
    """What a program that failed says, in one line."""
    if code < 0 or code > 128:  # by itself, or below a --prefix
        return f"crash (signal {-code if code < 0 else code - 128})"
    lines = [line for line in errors.strip().splitlines() if line.strip()]
    return lines[-1].strip() if lines else f"exit code {code}"


def check(source, target, facts, isa, arguments):
    with tempfile.TemporaryDirectory() as folder:
        command = [str(CAMSHAFT), "run", str(source / "model.onnx"), "--data", str(target), "--save-outputs", folder, "--threads", "1",
                   "--level", arguments.level, "--rtol", "1e9"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=arguments.timeout, env={**os.environ, "CAMSHAFT_ISA": isa})
        except subprocess.TimeoutExpired:
            return {"failed": f"no answer in {arguments.timeout:.0f} s"}
        errors = [data_sets.compare_outputs(pathlib.Path(folder), target, index, facts["outputs"]) for index in range(facts["sets"])]
        # Exit code 1 with all outputs there: they differ, and by how much is what is asked.
        if done.returncode < 0 or done.returncode > 128 or (done.returncode and float("inf") in errors):
            return {"failed": failure(done.returncode, done.stderr)}
        return {"error": max(errors), "errors": errors}


def time(source, target, cache, arguments):
    """Figures of bench/peers.py per engine, and the peak it measured."""
    out = target / "times.json"
    out.unlink(missing_ok=True)
    engines = ENGINES if "avx512" in lacking() else f"{ENGINES},{HELD_ENGINES}"
    command = [*shlex.split(arguments.prefix), sys.executable, str(ROOT / "bench" / "peers.py"), str(source / "model.onnx"), "--threads", "1", "--engines", engines,
               "--rounds", str(arguments.rounds), "--seconds", str(arguments.seconds), "--timing-cache", cache, "--json", str(out)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=arguments.timeout)
    except subprocess.TimeoutExpired:
        return {"camshaft": {"failed": f"no answer in {arguments.timeout:.0f} s"}}, 0
    if done.returncode or not out.exists():
        return {"camshaft": {"failed": failure(done.returncode, done.stderr)}}, 0
    figures, = json.loads(out.read_text())["rows"]
    return figures["engines"], figures["fma_peak_gmacs"]


def profile(source, cache, arguments):
    try:
        return layer_profile.profile_layers(source / "model.onnx", seconds=arguments.seconds, timing_cache=cache, prefix=shlex.split(arguments.prefix),
                                            timeout=arguments.timeout)
    except (RuntimeError, subprocess.TimeoutExpired, OSError) as error:
        print(f"  no profile: {error}", file=sys.stderr)
        return []


def tuned_checks(times):
    """The timed engines answered too, fully tuned: their errors are checks as well. peers.py looks at floats of matching sizes only."""
    for engine, isa in (("camshaft", "timed"), ("camshaft_avx2", "timed avx2")):
        figures = times.get(engine, {})
        if "failed" in figures:
            yield isa, {"failed": figures["failed"]}
        elif figures.get("error") is not None:
            yield isa, {"error": figures["error"]}


def examine(name, source, arguments):
    target = pathlib.Path(arguments.work) / name
    target.mkdir(parents=True, exist_ok=True)
    stored = target / "result.json"
    result = json.loads(stored.read_text()) if stored.exists() else {"checks": {}}
    result["name"] = name
    result.pop("unusable", None)
    try:
        facts = data_sets.prepare(source, target)
    except Exception as error:  # the reference itself: whatever ONNX Runtime or onnx raises is the answer
        result["unusable"] = str(error).strip().split("\n")[0][:200]
        stored.write_text(json.dumps(result, indent=1))
        return result
    result["quantization_error"] = facts.get("quantization_error", 0)
    result.update({key: facts[key] for key in ("onnxruntime_error", "shapes", "opset", "producer", "operators", "megabytes", "largest")})
    if not arguments.no_checks:
        for isa in arguments.isa.split(","):
            result["checks"][isa] = check(source, target, facts, isa, arguments)
    if not arguments.no_times:
        cache = arguments.timing_cache or str(pathlib.Path(arguments.work) / "timing.cache")
        result["times"], result["fma_peak_gmacs"] = time(source, target, cache, arguments)
        result["checks"].update(tuned_checks(result["times"]))
        result["layers"] = profile(source, cache, arguments)
    stored.write_text(json.dumps(result, indent=1))
    return result


def summary(result):
    ratios = " ".join(f"{peer} {table.times_text(table.ratio(result, peer))}" for peer in table.PEERS)
    return f"{table.verdict(result)}, error {table.number(table.worst(result), 2)}, {ratios}, AVX2 {table.times_text(table.ratio(result, table.PEER_AVX2, 'camshaft_avx2'))}"


def versions():
    names = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO", "torch": "PyTorch"}
    found = []
    for package, name in names.items():
        try:
            found.append(f"{name} {importlib.metadata.version(package).split('+')[0]}")
        except importlib.metadata.PackageNotFoundError:
            pass
    return ", ".join(found)


def main():
    arguments = parse_arguments()
    networks = find(arguments.folders, arguments.only.split(","))
    if not networks:
        print("run.py: no NAME/model.onnx in these folders", file=sys.stderr)
        return 1
    version = subprocess.run([str(CAMSHAFT), "--version"], capture_output=True, text=True).stdout.strip()
    for index, (name, source) in enumerate(networks.items()):
        stored = pathlib.Path(arguments.work) / name / "result.json"
        if stored.exists() and not arguments.again:
            print(f"[{index + 1}/{len(networks)}] {name}: known", flush=True)
            continue
        print(f"[{index + 1}/{len(networks)}] {name}: ", end="", flush=True)
        print(summary(examine(name, source, arguments)), flush=True)
    results = [json.loads(file.read_text()) for file in sorted(pathlib.Path(arguments.work).glob("*/result.json")) if file.parent.name in networks]
    print("\n".join(table.means(results)))
    bad = table.failures(results)
    print(f"{len(results)} networks, {len(bad)} not right" + "".join(f"\n  {result['name']}: {table.verdict(result)}" for result in bad))
    if arguments.markdown:
        facts = {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d, %H:%M UTC"), "cpu": cpu_fact("model name") or "unknown processor", "versions": f"{version}, {versions()}",
                 "note": arguments.note, "isas": arguments.isa.replace(",", ", "), "command": f"make zoo ZOO_DIR=… ZOO_ARGS=\"--isa {arguments.isa} --rounds {arguments.rounds} --seconds {arguments.seconds}\""}
        pathlib.Path(arguments.markdown).write_text(table.document(results, facts))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
