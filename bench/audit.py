#!/usr/bin/env python3
"""Where time is lost: every layer of every given model beside what this machine could do, sorted by the difference.

    bench/audit.py MODEL.onnx|FOLDER … [--threads N] [--top N] [--timing-cache FILE] [--json out.json]

Of a layer this machine can do no better than the longer of

    multiply-adds / peak        the FMA peak, or that of products of bytes, measured before and after the model's profile (the better one)
    bytes / bandwidth           inputs, outputs and constants touched once, at the rate one thread reads so many bytes again and again: L2, L3, memory

and what its profile takes beyond that is lost. Other algorithms (Winograd) may take less than their multiply-adds would. Printed: the layers that
lose most over all models, the sums by kind and tactic, and every layer on a reference kernel that takes more than --share of its network's time; then
the exit code is 1. Times are medians of `camexec --exportProfile`; inputs come from test_data_set_0 beside a model, else they are random."""

import argparse
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench"))

import layer_profile  # noqa: E402

SIZES = [2 ** k for k in range(16, 28)]  # of the buffers whose reading is timed


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", help="ONNX files, or folders that are searched for them")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.3, help="length of the profiled run")
    parser.add_argument("--top", type=int, default=40, help="layers to print")
    parser.add_argument("--share", type=float, default=2, help="percent of a network's time that a reference kernel may take")
    parser.add_argument("--timing-cache", default="", help="Camshaft's timing cache file")
    parser.add_argument("--json", help="write all layers here")
    return parser.parse_args()


class Machine:
    """What one thread can do: peaks of this second, rates of reading."""

    def __init__(self):
        import camshaft_api
        self.api = camshaft_api
        self.fresh = (0, 0)
        self.probe()
        self.rates = {size: self.api.read_bandwidth(size) for size in SIZES}

    def probe(self):
        """The better of this moment's peaks and those of the last call."""
        before, self.fresh = self.fresh, (self.api.fma_peak(), self.api.byte_peak())
        self.gmacs, self.byte_gmacs = map(max, before, self.fresh)

    def bandwidth(self, size):
        """GB/s of the smallest measured buffer that holds `size` bytes."""
        return self.rates[next((known for known in SIZES if known >= size), SIZES[-1])]

    def least_ms(self, layer, threads):
        peak = self.byte_gmacs if layer["precision"] in ("Int8", "UInt8") else self.gmacs
        compute = layer["macs"] / (peak * threads * 1e6) if peak else 0
        memory = layer["bytes"] / (self.bandwidth(layer["bytes"]) * 1e6)
        return max(compute, memory), "compute" if compute > memory else "memory"


def audited(layers, machine, threads):
    """Adds to every layer its share of the whole, the least time it could take, what bounds that, and what is lost."""
    whole = sum(layer["ms"] for layer in layers) or 1
    for layer in layers:
        layer["share"] = layer["ms"] / whole
        layer["least_ms"], layer["bound"] = machine.least_ms(layer, threads)
        layer["lost_ms"] = max(layer["ms"] - layer["least_ms"], 0) if layer["ms"] else 0
    return layers


def slow_references(layers, share):
    """Layers on reference kernels that take more than `share` percent of their network."""
    return [layer for layer in layers if layer["tactic"] == "reference" and layer["share"] * 100 > share]


def shapes(layer):
    return " ".join(layer["inputs"][:3]) + " -> " + " ".join(layer["outputs"][:1])


def totals(layers):
    """(kind, tactic) -> [count, ms, lost ms], most lost first."""
    sums = {}
    for layer in layers:
        row = sums.setdefault((layer["type"], layer["tactic"]), [0, 0.0, 0.0])
        row[0] += 1
        row[1] += layer["ms"]
        row[2] += layer["lost_ms"]
    return sorted(sums.items(), key=lambda item: -item[1][2])


def report(layers, arguments):
    """The lines to print. Networks differ in size: their layers are ranked by what share of their own network is lost."""
    ranked = sorted(layers, key=lambda layer: -layer["lost_ms"])
    lines = [f'{"lost ms":>9} {"ms":>9} {"least":>9} {"of net":>7}  {"bound":8}{"model":24} layer, tactic, shapes']
    for layer in ranked[:arguments.top]:
        lines.append(f'{layer["lost_ms"]:9.3f} {layer["ms"]:9.3f} {layer["least_ms"]:9.3f} {layer["share"]:7.1%}  {layer["bound"]:8}{layer["model"]:24} '
                     f'{layer["type"]} {layer["name"][:60]}, {layer["tactic"]}, {shapes(layer)}')
    lines += ["", f'{"lost ms":>9} {"ms":>9} {"layers":>7}  kind and tactic, all models']
    for (kind, tactic), (count, ms, lost) in totals(layers)[:arguments.top]:
        lines.append(f"{lost:9.3f} {ms:9.3f} {count:7}  {kind} {tactic}")
    slow = sorted(slow_references(layers, arguments.share), key=lambda layer: -layer["share"])
    lines += ["", f"{len(slow)} layers on reference kernels take more than {arguments.share:g} % of their network"]
    lines += [f'{layer["share"]:9.1%} {layer["ms"]:9.3f} ms  {layer["model"]:24} {layer["type"]} {layer["name"][:60]}, {shapes(layer)}' for layer in slow]
    return lines


def find(names):
    for name in names:
        path = pathlib.Path(name)
        yield from sorted([*path.glob("**/model.onnx"), *(file for file in path.glob("*.onnx") if file.name != "model.onnx")]) if path.is_dir() else [path]


def main():
    arguments = parse_arguments()
    machine, layers, failed = Machine(), [], []
    rates = {size: machine.bandwidth(size) for size in (2 ** 18, 2 ** 22, SIZES[-1])}
    print(f"one thread: {machine.gmacs:.1f} GMAC/s, of bytes {machine.byte_gmacs:.1f}; reads " +
          ", ".join(f"{size / 2 ** 20:g} MiB at {rate:.1f} GB/s" for size, rate in rates.items()))
    for path in find(arguments.models):
        name = path.parent.name if path.name == "model.onnx" else path.stem
        print(f"  {name}", file=sys.stderr, flush=True)
        try:
            machine.probe()
            found = layer_profile.profile_layers(path.resolve(), arguments.threads, arguments.seconds, arguments.timing_cache)
            machine.probe()
        except (RuntimeError, OSError) as error:
            failed.append(f"{name}: {error}")
            continue
        layers += [{"model": name, **layer} for layer in audited(found, machine, arguments.threads) if layer["type"] != "NoOp"]
    print("\n".join(report(layers, arguments) + failed))
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps({"threads": arguments.threads, "gmacs": machine.gmacs, "bandwidth": machine.rates, "layers": layers}, indent=1))
    return 1 if failed or slow_references(layers, arguments.share) else 0


if __name__ == "__main__":
    sys.exit(main())
