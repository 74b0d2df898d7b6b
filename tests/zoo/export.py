#!/usr/bin/env python3
"""Exports the zoo's own networks: seeded weights as ONNX, a data set each (two where it is dynamic). Nothing is downloaded.

    tests/zoo/export.py                  lists the names
    tests/zoo/export.py OUT NAME…|all    writes OUT/NAME/model.onnx, test_data_set_0/, info.json; a process per network

The stored outputs are those of ONNX Runtime without optimizations; info.json says how far they are from PyTorch in double precision."""

import copy
import json
import logging
import os
import pathlib
import subprocess
import sys
import time
import warnings
import zlib

warnings.filterwarnings("ignore")
for variable, value in (("TF_CPP_MIN_LOG_LEVEL", "3"), ("CUDA_VISIBLE_DEVICES", "-1"), ("TF_ENABLE_ONEDNN_OPTS", "0")):
    os.environ.setdefault(variable, value)

import numpy as np
import onnx

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import data_sets  # noqa: E402
from networks import OTHER_FILES, REGISTRY, TORCH_FILES, load_all  # noqa: E402


def condition(module, inputs):
    """Weights as training would leave them: scales of a unit gain, no parameter at its starting value, BatchNorm statistics of what it sees."""
    import torch
    from torch import nn
    convolutions = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
    random = torch.Generator().manual_seed(1234)
    with torch.no_grad():
        for part in module.modules():
            if isinstance(part, (*convolutions, nn.Linear)):
                fan = part.weight[0].numel()
                if isinstance(part, (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)):
                    fan = part.weight.shape[0] * part.weight[0, 0].numel() / np.prod(part.stride)
                gain = 1.6 if isinstance(part, convolutions) else 1.0
                part.weight.copy_(torch.randn(part.weight.shape, generator=random) * (gain / fan) ** 0.5)
        for name, parameter in module.named_parameters():
            if name.endswith("bias"):
                parameter.add_(0.05 * torch.randn(parameter.shape, generator=random))
            elif parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=random))
    norms = [part for part in module.modules() if isinstance(part, (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d))]
    if not norms:
        return
    for norm in norms:
        norm.train()
        norm.momentum = 1.0
    with torch.no_grad():
        module(*inputs.values())
        for norm in norms:
            norm.eval()
            norm.momentum = 0.1
            norm.running_mean.add_(0.1 * torch.randn(norm.running_mean.shape, generator=random))
            norm.running_var.mul_(1 + 0.3 * torch.rand(norm.running_var.shape, generator=random))


def named(module, names):
    """`module` with a forward of exactly these parameters: the exporters name inputs after them."""
    import torch
    scope = {}
    exec(f"def forward(self, {', '.join(names)}):\n    return self.inner({', '.join(names)})", scope)
    wrapper = type(type(module).__name__, (torch.nn.Module,), {"forward": scope["forward"]})()
    wrapper.inner = module
    return wrapper.eval()


def in_double(module, inputs):
    """What PyTorch computes in double precision; in single where something in the network insists on it."""
    import torch
    with torch.no_grad():
        try:
            wide = copy.deepcopy(module).double()
            found = wide(*(value.double() if value.is_floating_point() else value for value in inputs.values()))
        except RuntimeError:
            found = module(*inputs.values())
    return [value.numpy() for value in ((found,) if torch.is_tensor(found) else found)]


def export_torch(network, path):
    """Writes the model; gives the data sets as arrays by input name, and PyTorch's outputs for the first."""
    import torch
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # what else it could export is no news
    torch.set_num_threads(1)
    torch.backends.mha.set_fastpath_enabled(False)  # one operator that no exporter knows
    torch.manual_seed(zlib.crc32(network.name.encode()))
    module, *sets = network.make()
    module.eval()
    condition(module, sets[0])
    names = list(sets[0])
    module = named(module, names)
    reference = in_double(module, sets[0])
    arguments = dict(input_names=names, output_names=[f"out{index}" for index in range(len(reference))], opset_version=network.opset)
    values = tuple(sets[0].values())
    if network.exporter == "script":
        axes = {"dynamic_axes": network.dynamic} if network.dynamic else {}
        with torch.no_grad():
            torch.onnx.export(module, values, str(path), dynamo=False, **arguments, **axes)
    else:
        symbols = {}
        if network.dynamic:
            symbols["dynamic_shapes"] = tuple({axis: torch.export.Dim.DYNAMIC for axis in network.dynamic.get(name, {})} for name in names)
        torch.onnx.export(module, values, str(path), dynamo=True, external_data=False, verbose=False, **arguments, **symbols)
    return [{name: value.numpy() for name, value in inputs.items()} for inputs in sets], reference


def write(network, folder):
    start = time.time()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "model.onnx"
    if network.exporter in ("script", "dynamo"):
        sets, reference = export_torch(network, path)
    else:
        sets, reference = network.make(path)
    model = onnx.load(str(path))
    names, outputs = [value.name for value in data_sets.graph_inputs(model)], [value.name for value in model.graph.output]
    session = data_sets.session(path, optimized=False)
    errors = []
    for index, arrays in enumerate(sets):
        found = session.run(outputs, {name: arrays[name] for name in names})
        where = folder / data_sets.SETS[index]
        data_sets.save_arrays(where, "input", names, [arrays[name] for name in names])
        data_sets.save_arrays(where, "output", outputs, found)
        if index == 0:
            errors = [difference(ours, theirs) for ours, theirs in zip(found, reference)]
    operators = {}
    for node in model.graph.node:
        operators[node.op_type] = operators.get(node.op_type, 0) + 1
    info = {"name": network.name, "exporter": network.exporter, "opset": network.opset, "dyn": network.dynamic, "nodes": len(model.graph.node),
            "ops": dict(sorted(operators.items(), key=lambda item: -item[1])), "mb": round(path.stat().st_size / 1e6, 1), "ort_vs_torch": errors,
            "largest": [float(np.abs(array).max(initial=0)) for array in found if array.dtype.kind == "f"], "export_s": round(time.time() - start, 1)}
    (folder / "info.json").write_text(json.dumps(info, indent=1))
    return info


def difference(ours, wide):
    """None where PyTorch cannot say: Nms stands in for an operator it does not have."""
    if ours.shape != wide.shape:
        return None
    if ours.dtype.kind == "f" and wide.dtype.kind == "f":
        ours, wide = ours.astype(np.float64), wide.astype(np.float64)
    return data_sets.relative_error(ours, wide)


def export_one(name, out):
    """In this process: one line about it; the exit code."""
    try:
        info = write(REGISTRY[name], pathlib.Path(out) / name)
    except Exception as error:  # whatever PyTorch, tf2onnx or skl2onnx raises is the answer
        if os.environ.get("ZOO_DEBUG"):
            raise
        print(f"FAILED {name}: {type(error).__name__}: {str(error).strip().splitlines()[0][:300] if str(error).strip() else ''}", flush=True)
        return 1
    errors = [error for error in info["ort_vs_torch"] if error is not None]
    bad = [error for error in errors if not error < 1e-3]
    print(f"{'ok' if not bad else 'DIFFERS'} {name}: {info['exporter']}, opset {info['opset']}, {info['nodes']} nodes, {info['mb']} MB, {info['export_s']} s, "
          f"{' '.join(f'{error:.1e}' for error in errors)}, largest {' '.join(f'{value:.3g}' for value in info['largest'])}", flush=True)
    return 0


def main():
    missing = load_all(TORCH_FILES + OTHER_FILES)
    words = sys.argv[1:]
    if not words:
        print("\n".join(REGISTRY))
        return 0
    if words[0] == "--one":
        return export_one(words[2], words[1])
    out, names = words[0], words[1:]
    for file, why in missing.items():
        print(f"{file}: not exported: {why}", file=sys.stderr)
    if names == ["all"]:
        names = list(REGISTRY)
    unknown = [name for name in names if name not in REGISTRY]
    if unknown or not names:
        print(f"export.py: {'unknown network ' + unknown[0] if unknown else 'name networks, or all'}", file=sys.stderr)
        return 1
    codes = [subprocess.run([sys.executable, __file__, "--one", out, name]).returncode for name in names]
    return 1 if any(codes) else 0


if __name__ == "__main__":
    sys.exit(main())
