"""The generated models (real architectures, seeded random weights) through `camshaft run`, against what ONNX Runtime computed without
optimizations (generated/*.npz, made by make_generated_references.py)."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from make_generated_references import input_array, sample

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARED = pathlib.Path(os.environ.get("CAMSHAFT_SHARED", ROOT.parent / "shared"))
GENERATOR = SHARED / "tools" / "gen_seed_models.py"
FOLDER = ROOT / "build" / "generated_models"
CAMSHAFT = pathlib.Path(os.environ.get("CAMSHAFT_BIN", ROOT / "build/release/bin")) / "camshaft"
LIGHT = "onnx/backend/test/data/light"
ISAS = ["scalar", "avx2", "avx512"]
HEAVY = {"yolov8s_seed", "resnet50_v1", "reweighted_densenet121", "reweighted_inception_v2"}  # seconds per run without vectors


def light_folder():
    folder = FOLDER / "light"
    if not (folder / LIGHT).exists():
        archive, = (SHARED / "onnx-conformance").glob("onnx-backend-data-*.tar.xz")
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["tar", "xJf", str(archive), "-C", str(folder), LIGHT], check=True)
    return folder / LIGHT


def model_file(name):
    if not GENERATOR.exists():
        pytest.skip("the model generator (../shared/tools) is not here")
    pytest.importorskip("onnx", reason="python3-onnx is not installed")
    file = FOLDER / f"{name}.onnx"
    if not file.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        what = name
        if name.startswith("reweighted_"):
            what = f"light:{light_folder()}/light_{name.removeprefix('reweighted_')}.onnx"
        subprocess.run([sys.executable, str(GENERATOR), str(FOLDER), what], check=True, capture_output=True)
    return file


def input_kinds(file):
    import onnx
    graph = onnx.load(str(file)).graph
    stored = {tensor.name for tensor in graph.initializer}
    # The older name is gone from newer ones, the newer one came with 1.13.
    kind = getattr(onnx.helper, "tensor_dtype_to_np_dtype", None) or onnx.mapping.TENSOR_TYPE_TO_NP_TYPE.__getitem__
    return [(value.name, kind(value.type.tensor_type.elem_type))
            for value in graph.input if value.name not in stored]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", sorted(file.stem for file in (pathlib.Path(__file__).parent / "generated").glob("*.npz")))
def test_agrees_with_onnx_runtime(name, isa, tmp_path):
    if isa == "scalar" and name in HEAVY:
        pytest.skip("takes too long without vector instructions; the layers are tested on their own")
    file = model_file(name)
    wanted = np.load(pathlib.Path(__file__).parent / "generated" / f"{name}.npz")
    arguments = []
    for index, (input_name, kind) in enumerate(input_kinds(file)):
        path = tmp_path / f"input_{index}.npy"
        np.save(path, input_array(index, tuple(wanted[f"input_{index}_shape"]), kind))
        arguments += ["--input", f"{input_name}:{path}"]
    command = [str(CAMSHAFT), "run", str(file), *arguments, "--save-outputs", str(tmp_path / "out")]
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "CAMSHAFT_ISA": isa})
    assert result.returncode == 0, result.stderr
    outputs = [key for key in wanted.files if key.startswith("output_") and key.count("_") == 1]
    files = sorted((tmp_path / "out").rglob("*.npy"))
    assert len(files) == len(outputs)
    arrays = [np.load(path) for path in files]
    for key in outputs:
        shape, largest = tuple(wanted[f"{key}_shape"]), float(wanted[f"{key}_largest"])
        ours, = [sample(array) for array in arrays if array.shape == shape]
        assert np.allclose(ours, wanted[key], rtol=1e-3, atol=1e-4 * largest)
