"""What the runner found, judged and written as docs/zoo.md. Needs nothing but Python."""

import statistics

TOLERANCE = 1e-3        # of the largest output
OWN_ERRORS = 10         # times what ONNX Runtime's optimizations change
LEAST_OWN_ERROR = 1e-6  # sums in another order; ONNX Runtime often changes nothing at all
PEERS = ("onnxruntime", "openvino_f32")
PEER_AVX2 = "onnxruntime_avx2"  # bench/held_peers.py


def verdict(result):
    """"right", or what is wrong and where, in words. `result["checks"]`: instruction set -> {"error": worst of all data sets} or {"failed": why}."""
    if "unusable" in result:
        return f"not compared: {result['unusable']}"
    own = max(result["onnxruntime_error"], LEAST_OWN_ERROR)
    rounding = result.get("quantization_error", 0)  # variants.py: what codes that round the other way may come to
    words = []
    for isa, check in result["checks"].items():
        if "failed" in check:
            words.append((check["failed"], isa))
        elif check["error"] > max(TOLERANCE, rounding):
            words.append((f"wrong: {error_text(check['error'])}", isa))
        elif not rounding and check["error"] > OWN_ERRORS * own:
            words.append((f"inexact: {check['error'] / own:.0f} x ONNX Runtime's {own:.1g}", isa))
    if not words:
        return "right"
    return "; ".join(f"{text} ({', '.join(isa for other, isa in words if other == text)})" for text in dict.fromkeys(text for text, _ in words))


def error_text(error):
    return "another shape, type or set of integers" if error == float("inf") else f"{error:.1e}"


def worst(result):
    errors = [check["error"] for check in result.get("checks", {}).values() if "error" in check]
    return max(errors) if errors else None


def milliseconds(result, engine):
    return result.get("times", {}).get(engine, {}).get("median_ms")


def ratio(result, peer, engine="camshaft"):
    """How many times faster `engine` is than `peer`; None where one of them was not timed."""
    ours, theirs = milliseconds(result, engine), milliseconds(result, peer)
    return theirs / ours if ours and theirs else None


def slowest_kind(layers):
    """(kind, share of the layers' time) of the kind of layer that takes longest."""
    total = {}
    for layer in layers:
        total[layer["type"]] = total.get(layer["type"], 0) + layer["ms"]
    whole = sum(total.values())
    if not whole:
        return "", 0.0
    kind = max(total, key=total.get)
    return kind, total[kind] / whole


def number(value, digits=3):
    return "–" if value is None else f"{value:.{digits}g}"


def times_text(value):
    return "–" if value is None else f"{value:.2f}"


def shape_text(result):
    """Of the first input in both data sets."""
    return ", ".join("×".join(map(str, shapes[0])) or "scalar" for shapes in result.get("shapes", []) if shapes)


def has_held(results):
    """Were engines held to AVX2 as well? Not on a processor that has nothing else."""
    return any("camshaft_avx2" in result.get("times", {}) for result in results)


def row(result, held):
    layers = [layer for layer in result.get("layers", []) if layer["type"] != "NoOp"]
    kind, share = slowest_kind(layers)
    cells = [result["name"], shape_text(result), verdict(result), number(worst(result), 2), number(result.get("onnxruntime_error"), 2),
             number(milliseconds(result, "camshaft")), *(times_text(ratio(result, peer)) for peer in PEERS),
             *([number(milliseconds(result, "camshaft_avx2")), times_text(ratio(result, PEER_AVX2, "camshaft_avx2"))] if held else []),
             str(len(layers)) if layers else "–", f"{kind} {share:.0%}" if kind else "–"]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def header(held):
    return ["network", "first input", "verdict", "error", "ONNX Runtime's", "ms", "vs ONNX Runtime", "vs OpenVINO f32",
            *(["AVX2 ms", "AVX2 vs ONNX Runtime"] if held else []), "layers", "most time in"]


def table(results):
    held = has_held(results)
    names = header(held)
    lines = ["| " + " | ".join(names) + " |", "|---|---|---|" + "---:|" * (len(names) - 4) + "---|"]
    return lines + [row(result, held) for result in results]


def mean_line(results, peer, engine, text):
    ratios = {result["name"]: ratio(result, peer, engine) for result in results}
    ratios = {name: value for name, value in ratios.items() if value}
    if not ratios:
        return None
    behind = sorted((value, name) for name, value in ratios.items() if value < 1)
    which = ", ".join(f"{name} ({value:.2f})" for value, name in behind)
    return f"- {text}: **{statistics.geometric_mean(ratios.values()):.2f}** on {len(ratios)}, behind on {len(behind) or 'none'}" + (f": {which}" if which else "")


def means(results):
    lines = [mean_line(results, "onnxruntime", "camshaft", "over ONNX Runtime"),
             mean_line(results, "openvino_f32", "camshaft", "over OpenVINO with f32"),
             mean_line(results, PEER_AVX2, "camshaft_avx2", "over ONNX Runtime, both held to AVX2")]
    return [line for line in lines if line]


def failures(results):
    return [result for result in results if verdict(result) != "right"]


def untimed(results):
    """What a peer said instead of running: network and engine -> why."""
    return [f"- {result['name']}: {engine}: {figures['failed']}" for result in results for engine, figures in result.get("times", {}).items()
            if "failed" in figures]


def document(results, facts):
    """docs/zoo.md. `facts`: date, cpu, command, versions, isas, note, one line each."""
    bad = failures(results)
    lines = ["# The zoo", "",
             "Networks that nobody tuned anything for: exported from PyTorch by both of its exporters (opset 17 to 23), from scikit-learn and from Keras, seeded weights, real",
             "widths, few layers ([tests/zoo](../tests/zoo/README.md)). `make zoo` writes this page; do not edit it.", "",
             f"{facts['date']}, {facts['cpu']}. {facts['versions']}. {facts['note']}".rstrip(), "", f"    {facts['command']}", "",
             f"**error**: largest difference over the largest output, worst of all data sets and instruction sets ({facts['isas']}), against ONNX Runtime without",
             f"optimizations. Right is at most {TOLERANCE:g} and at most {OWN_ERRORS} times **ONNX Runtime's** own: how far its optimized outputs, or those of the exporter, are from these, at",
             f"least {LEAST_OWN_ERROR:g}. Dynamic networks are compared at two shapes with one engine built for both; the extents are those of the first input.",
             "**ms**: one thread, engines in turns, median of medians at the first shape; **vs**: how many times faster Camshaft is."
             + (" **AVX2**: both held to it (`bench/held_peers.py`)." if has_held(results) else ""),
             "**layers**: that run; then the kind that takes most of the time.", "",
             f"{len(results)} networks, {len(results) - len(bad)} right. Geometric means:", "", *means(results), ""]
    if bad:
        lines += ["Not right:", "", *(f"- {result['name']}: {verdict(result)}" for result in bad), ""]
    lines += table(results)
    peers = untimed(results)
    if peers:
        lines += ["", "Engines that did not run a network:", "", *peers]
    return "\n".join(lines) + "\n"
