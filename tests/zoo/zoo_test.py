"""The parts of the zoo that need neither PyTorch nor ONNX Runtime: second shapes, comparing, verdicts, the table, the audit."""

import pathlib
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(pathlib.Path(__file__).parent), str(ROOT / "bench")]
pytest.importorskip("onnx", reason="python3-onnx is not installed")

import audit  # noqa: E402
import data_sets  # noqa: E402
import layer_profile  # noqa: E402
import table  # noqa: E402


def result(**changes):
    layers = [{"type": "Convolution", "ms": 3.0}, {"type": "NoOp", "ms": 0.0}, {"type": "SoftMax", "ms": 1.0}]
    return {"name": "net", "onnxruntime_error": 2e-6, "checks": {"avx2": {"error": 5e-6}, "avx512": {"error": 4e-6}}, "shapes": [[[1, 3, 8, 8]], [[2, 3, 8, 8]]], "layers": layers,
            "times": {"camshaft": {"median_ms": 2.0}, "camshaft_avx2": {"median_ms": 4.0}, "onnxruntime": {"median_ms": 3.0}, "onnxruntime_avx2": {"median_ms": 6.0}, "openvino_f32": {"failed": "crashed"}}, **changes}


def test_second_extents_keep_a_cache_and_its_mask_together():
    inputs = {"ids": ((2, 1), {0: "b"}), "mask": ((2, 64), {0: "b", 1: ""}), "past": ((2, 4, 63, 8), {0: "", 2: ""}), "state": ((3, 2, 8), {1: "b"})}
    assert data_sets.second_extents(inputs) == {"ids": (3, 1), "mask": (3, 75), "past": (3, 4, 74, 8), "state": (3, 3, 8)}
    assert data_sets.second_extents(inputs, batches=0, multiple=32) == {"ids": (2, 1), "mask": (2, 96), "past": (2, 4, 95, 8), "state": (3, 2, 8)}
    assert data_sets.second_extents({"wave": ((1, 16000), {0: "", 1: ""})}) == {"wave": (2, 17600)}
    assert data_sets.second_extents({"fixed": ((1, 3), {})}) == {"fixed": (1, 3)}


class Picky:
    """A network of images whose sides are multiples of 32 that takes one at a time."""

    def run(self, outputs, feeds):
        if feeds["x"].shape[0] > 1 or any(side % 32 for side in feeds["x"].shape[2:]):
            raise ValueError(feeds["x"].shape)


def test_the_second_set_is_the_first_that_the_network_takes():
    x = np.arange(3 * 64 * 96, dtype=np.float32).reshape(1, 3, 64, 96)
    (second,) = data_sets.second_set(Picky(), ["y"], {"x": x}, {"x": {0: "n", 2: "h", 3: "w"}})
    assert second.shape == (1, 3, 96, 128)
    assert data_sets.second_set(Picky(), ["y"], {"x": x}, {"x": {0: "n"}}) is None


def test_stretched_arrays_hold_the_values_they_had():
    array = np.arange(6).reshape(2, 3)
    wide = data_sets.stretched(array, (3, 5))
    assert wide.shape == (3, 5) and np.array_equal(wide[:2, :3], array) and set(wide.flat) == set(array.flat)
    assert data_sets.stretched(np.float32(3), ()).shape == ()
    assert data_sets.stretched(array, (2, 3)) is not None and np.array_equal(data_sets.stretched(array, (2, 3)), array)


@pytest.mark.parametrize("ours, theirs, wanted", [
    ([1.0, 2.0], [1.0, 2.5], 0.2),
    ([1.0, np.nan], [1.0, np.nan], 0.0),
    ([1.0, 2.0], [1.0, np.nan], np.inf),
    ([1.0, np.inf], [1.0, np.inf], 0.0),
    ([1.0, -np.inf], [1.0, np.inf], np.inf),
    ([np.nan, 2.0], [1.0, 2.0], np.inf),
    ([], [], 0.0),
])
def test_error_of_floats(ours, theirs, wanted):
    assert data_sets.relative_error(np.array(ours, np.float32), np.array(theirs, np.float32)) == pytest.approx(wanted)


def test_integers_and_shapes_must_be_equal():
    one = np.array([1, 2])
    assert data_sets.relative_error(one, one) == 0
    assert data_sets.relative_error(one, np.array([1, 3])) == np.inf
    assert data_sets.relative_error(one, one[:, None]) == np.inf
    assert data_sets.relative_error(one.astype(np.float32), one) == np.inf
    assert data_sets.worst_error([one], [one, one]) == np.inf


def test_saved_arrays_come_back(tmp_path):
    arrays = [np.float32(3).reshape(()), np.arange(4, dtype=np.int64)]
    data_sets.save_arrays(tmp_path, "input", ["a", "b"], arrays)
    for saved, array in zip(data_sets.load_arrays(tmp_path, "input", 2), arrays):
        assert saved.shape == array.shape and saved.dtype == array.dtype and np.array_equal(saved, array)


def test_outputs_are_found_by_the_names_their_files_have(tmp_path):
    np.save(tmp_path / "a_b_0.npy", np.ones(2))
    assert data_sets.output_files(tmp_path, ["a/b:0", "c"]) == [tmp_path / "a_b_0.npy", None]


@pytest.mark.parametrize("changes, wanted", [
    ({}, "right"),
    ({"checks": {"avx2": {"error": 0.02}, "avx512": {"error": 0.02}}}, "wrong: 2.0e-02 (avx2, avx512)"),
    ({"checks": {"avx2": {"error": 1e-7}, "avx512": {"error": 3e-5}}}, "inexact: 15 x ONNX Runtime's 2e-06 (avx512)"),
    ({"checks": {"avx512": {"failed": "crash (signal 11)"}}}, "crash (signal 11) (avx512)"),
    ({"checks": {"avx2": {"error": float("inf")}}}, "wrong: another shape, type or set of integers (avx2)"),
    ({"quantization_error": 0.05, "checks": {"avx2": {"error": 0.02}, "scalar": {"error": 0.06}}}, "wrong: 6.0e-02 (scalar)"),
    ({"unusable": "no reference"}, "not compared: no reference"),
])
def test_verdicts(changes, wanted):
    assert table.verdict(result(**changes)) == wanted


def test_an_error_that_is_all_rounding_is_right_though_onnx_runtime_has_none():
    assert table.verdict(result(onnxruntime_error=0.0, checks={"avx2": {"error": 9e-6}})) == "right"
    assert table.verdict(result(onnxruntime_error=0.0, checks={"avx2": {"error": 2e-5}})) != "right"


def test_ratios_means_and_rows():
    assert table.ratio(result(), "onnxruntime") == 1.5 and table.ratio(result(), "openvino_f32") is None
    fast, slow = result(name="fast"), result(name="slow")
    slow["times"] = {"camshaft": {"median_ms": 4.0}, "onnxruntime": {"median_ms": 3.0}}
    first, = [line for line in table.means([fast, slow]) if "over ONNX Runtime:" in line]
    assert "**1.06** on 2" in first and "slow (0.75)" in first and "fast (" not in first
    cells = [cell.strip() for cell in table.row(fast, held=True).strip("|").split("|")]
    assert len(cells) == len(table.header(held=True))
    assert cells[:4] == ["fast", "1×3×8×8, 2×3×8×8", "right", "5e-06"]
    assert cells[6:] == ["1.50", "–", "4", "1.50", "2", "Convolution 75%"]


def test_a_processor_without_avx512_has_no_columns_of_engines_held_to_avx2():
    alone = result()
    alone["times"] = {engine: figures for engine, figures in alone["times"].items() if not engine.endswith("_avx2")}
    head, rule, row = table.table([alone])
    assert "AVX2" in table.table([result()])[0] and "AVX2" not in head
    assert head.count("|") == rule.count("|") == row.count("|") == table.table([result()])[0].count("|") - 2


def test_document_lists_what_is_not_right_and_who_did_not_run():
    facts = {"date": "today", "cpu": "a processor", "versions": "some", "isas": "avx2", "command": "make zoo", "note": "Nothing else ran."}
    page = table.document([result(), result(name="bad", checks={"avx2": {"failed": "crash (signal 11)"}}, times={}, layers=[])], facts)
    assert "some. Nothing else ran.\n" in page
    assert "2 networks, 1 right" in page and "- bad: crash (signal 11) (avx2)" in page and "- net: openvino_f32: crashed" in page
    assert len({line.count("|") for line in page.splitlines() if line.startswith("|")}) == 1


class FakeMachine(audit.Machine):
    def __init__(self):
        self.gmacs, self.byte_gmacs, self.rates = 50.0, 200.0, {size: 40.0 if size <= 2 ** 20 else 10.0 for size in audit.SIZES}


def layer(**changes):
    return {"name": "l", "type": "Convolution", "tactic": "t", "ms": 1.0, "macs": 0, "bytes": 0, "precision": "Float", "inputs": ["1"], "outputs": ["1"], **changes}


def test_audit_takes_the_longer_of_work_and_bytes():
    rows = audit.audited([layer(macs=25e6, bytes=4e5), layer(macs=25e6, precision="UInt8"), layer(bytes=8e6), layer(ms=0.1, macs=25e6)], FakeMachine(), 1)
    assert [row["least_ms"] for row in rows] == pytest.approx([0.5, 0.125, 0.8, 0.5])
    assert [row["bound"] for row in rows] == ["compute", "compute", "memory", "compute"]
    assert [row["lost_ms"] for row in rows] == pytest.approx([0.5, 0.875, 0.2, 0])


def test_audit_names_slow_reference_kernels():
    rows = audit.audited([layer(ms=97.0), layer(tactic="reference", ms=2.5, type="Einsum"), layer(tactic="reference", ms=0.5)], FakeMachine(), 1)
    assert [row["type"] for row in audit.slow_references(rows, 2)] == ["Einsum"]
    (first, sums), *_ = audit.totals(rows)
    assert first == ("Convolution", "t") and sums[0] == 1 and sums[1] == 97.0


def test_layers_without_a_tactic_run_the_reference_kernel():
    info = {"Name": "n", "LayerType": "Generic", "OpType": "Einsum", "Inputs": [{"Dimensions": [2, 3]}], "Outputs": [{"Dimensions": []}], "FLOPs": 10, "Bytes": 32, "WeightBytes": 8}
    joined = layer_profile.joined(info, 1.5)
    assert joined["type"] == "Einsum" and joined["tactic"] == "reference" and joined["macs"] == 5 and joined["bytes"] == 40 and joined["inputs"] == ["2x3"] and joined["outputs"] == ["scalar"]
    assert layer_profile.joined({**info, "LayerType": "NoOp"}, 0.0)["tactic"] == ""
    assert layer_profile.joined({**info, "TacticWhenRun": True}, 0.0)["tactic"] == "when run"


def test_layers_inside_loops_are_rows_of_their_own():
    inner = [{"Name": "if", "LayerType": "If", "Bodies": [{"Name": "then", "Layers": [{"Name": "a", "LayerType": "Unary"}]}, {"Name": "else", "Layers": [{"Name": "b", "LayerType": "Unary"}]}]},
             {"Name": "c", "LayerType": "SoftMax", "TacticName": "softmax_f32"}]
    loop = {"Name": "loop", "LayerType": "Loop", "Inputs": [], "Outputs": [], "Bodies": [{"Name": "body", "Layers": inner}]}
    row = {"name": "loop", "medianMs": 10.0, "layers": [{"name": "if", "medianMs": 6.0}, {"name": "a", "medianMs": 5.0}, {"name": "c", "medianMs": 3.0}]}
    assert [(found["name"], found["tactic"], found["ms"]) for found in layer_profile.opened(loop, row)] == [
        ("loop", "its body", 1.0), ("if", "its body", 1.0), ("a", "reference", 5.0), ("b", "reference", 0.0), ("c", "softmax_f32", 3.0)]
