# SPDX-License-Identifier: Apache-2.0
"""Builds, engines, layers, profiles, explanations, errors."""
import copy
import json
import logging
import pickle

import numpy as np
import pytest
from onnx import TensorProto, helper

import camshaft
from conftest import model, value


def test_an_engine_goes_through_bytes_files_and_pickle(conv, image, tmp_path):
    engine = camshaft.build(conv, optimization_level=0)
    engine.save(tmp_path / "m.engine")
    expected = engine.session().run({"x": image})[0]
    for other in (camshaft.Engine.load(tmp_path / "m.engine"), camshaft.Engine.from_bytes(engine.bytes), pickle.loads(pickle.dumps(engine))):
        assert other.bytes == engine.bytes
        np.testing.assert_array_equal(other.session().run({"x": image})[0], expected)
    with pytest.raises(camshaft.CorruptEngine):
        camshaft.Engine.from_bytes(engine.bytes[:-5])
    with pytest.raises(camshaft.FileError) as error:
        camshaft.Engine.load(tmp_path / "none.engine")
    assert isinstance(error.value, OSError)


def test_layers_say_what_they_are(conv):
    engine = camshaft.build(conv)
    layer = engine.layers.find("conv1")
    assert layer.type == "Convolution" and layer.tactic and {"conv1", "relu1"} <= set(layer.source_nodes)
    assert layer.outputs[0].shape == [1, 4, 8, 8] and layer.outputs[0].dtype == "float32"
    assert layer.macs == 4 * 3 * 9 * 64
    records = engine.layers.to_records()
    assert records[layer.index]["tactic"] == layer.tactic and len(records) == len(engine.layers)
    assert layer.tactic in engine._repr_html_()
    assert engine.info["layer_count"] == len(engine.layers)
    assert json.loads(engine.layer_json())["Layers"]


def test_explanations_name_the_chosen_and_the_refused(conv):
    engine = camshaft.build(conv)
    why = engine.explain("conv1")
    assert [c.chosen for c in why.candidates].count(True) == 1 and why.candidates[0].chosen
    assert any("relu1" in r.text for r in why.rewrites)
    assert all(bool(r.reason) == r.declined for r in engine.rewrites)
    assert any(c.refusal for c in why.candidates) and all(c.why_not for c in why.candidates[1:])
    assert why.candidates[0].tactic in str(why) and "<table>" in why._repr_html_()
    assert engine.explain(why.layer.index).layer.name == why.layer.name
    with pytest.raises(camshaft.InvalidArgument, match="no layer has"):
        engine.explain("nothing of that name")


def test_regions_are_transformer_blocks(conv):
    assert camshaft.build(conv).regions == []
    rng = np.random.default_rng(5)
    weights = {n: rng.standard_normal((16, 16)).astype("f") for n in ("wq", "wk", "wv", "wo")} | {"heads": np.int64([1, 4, 2, 8]), "rows": np.int64([1, 4, 16])}
    nodes = [helper.make_node("MatMul", ["x", "w" + n], [n], n + "/MatMul") for n in "qkv"]
    nodes += [helper.make_node("Reshape", [n, "heads"], [n + "r"], n + "/Reshape") for n in "qkv"]
    nodes += [helper.make_node("Transpose", [n + "r"], [n + "t"], n + "/Transpose", perm=[0, 2, 3, 1] if n == "k" else [0, 2, 1, 3]) for n in "qkv"]
    nodes += [helper.make_node("MatMul", ["qt", "kt"], ["s"], "scores/MatMul"), helper.make_node("Softmax", ["s"], ["p"], "Softmax", axis=-1),
              helper.make_node("MatMul", ["p", "vt"], ["a"], "attend/MatMul"), helper.make_node("Transpose", ["a"], ["at"], "Transpose", perm=[0, 2, 1, 3]),
              helper.make_node("Reshape", ["at", "rows"], ["ar"], "Reshape"), helper.make_node("MatMul", ["ar", "wo"], ["y"], "out/MatMul")]
    engine = camshaft.build(model(nodes, [value("x", TensorProto.FLOAT, [1, 4, 16])], [value("y", TensorProto.FLOAT, [1, 4, 16])], weights))
    (region,) = engine.regions
    assert region.name == "{ForeignNode[q/MatMul...out/MatMul]}" and region.layers == list(range(len(engine.layers)))
    assert region.before[0].reason == "an input of the network" and region.after[0].tensor.name == "y"
    assert json.loads(engine.layer_json("layer_names_only"))["Layers"] == [region.name]
    out = engine.explain("out/MatMul")
    assert out.layer.region_type == "gemm" and out.layer.region_name.startswith("out/MatMul_myl0_") and region.name in str(out)
    assert engine.explain(out.layer.region_name).layer.index == out.layer.index
    with pytest.raises(camshaft.InvalidArgument, match="verbosity 'brief'"):
        engine.layer_json("brief")


def test_profiles_time_every_layer(conv, image):
    engine = camshaft.build(conv)
    for profile in (engine.profile(runs=5), engine.profile({"x": image}, runs=3, threads=1)):
        assert len(profile) and all(row.median_ms > 0 for row in profile)
        assert abs(sum(row.percentage for row in profile) - 100) < 1
        assert profile.to_records()[0]["tactic"] is not None
        assert "Total" in str(profile) and "<table" in profile._repr_html_() and profile.to_json()[0]["count"]


def test_progress_reports_and_cancels(conv):
    seen = []
    camshaft.build(conv, progress=lambda phase, done, total: seen.append((phase, done, total)))
    assert seen and all(done <= total for _, done, total in seen)
    with pytest.raises(camshaft.Cancelled):
        camshaft.build(conv, progress=lambda *step: False)

    def fail(*step):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        camshaft.build(conv, progress=fail)
    camshaft.build(conv, progress=True)  # no terminal here: silent


def test_several_profiles(matmul):
    proto, weights = matmul
    engine = camshaft.build(proto, profiles=[{"x": (1, 16)}, {"x": ((2, 16), (8, 16), (9, 16))}])
    assert len(engine.profiles) == 2
    x = np.ones((9, 16), "f")
    np.testing.assert_allclose(engine.session(profile=1).run(["y"], {"x": x})[0], x @ weights, rtol=1e-5)
    with pytest.raises(camshaft.InvalidArgument, match="profile 2"):
        engine.session(profile=2)


@pytest.mark.parametrize("options, text", [
    ({"precison": "fp16"}, "unknown option 'precison'"), ({"precision": "fp8"}, "one of fp32, bf16"),
    ({"shapes": {"u": (1,)}}, "no input 'u'"), ({"shapes": {"x": ((2, 16), (1, 16), (3, 16))}}, "min <= opt <= max"),
    ({"shapes": {"x": (1, 16)}, "profiles": []}, "not both"), ({"layer_precisions": {"conv1": "int9"}}, "int9")])
def test_wrong_options_are_refused(matmul, options, text):
    with pytest.raises(camshaft.InvalidArgument, match=text):
        camshaft.build(matmul[0], **options)


def test_errors_carry_node_operator_and_reason(conv):
    bad = copy.deepcopy(conv)
    bad.graph.node[0].op_type = "Convolve"
    bad.graph.node.append(helper.make_node("Nonsense", ["y"], ["u"], "a name of several words"))
    with pytest.raises(camshaft.Unsupported) as caught:
        camshaft.build(bad)
    error = caught.value
    assert (error.node, error.operator) == ("conv1", "Convolve") and "not known" in error.reason
    assert [issue.node for issue in error.issues] == ["conv1", "a name of several words"]
    assert isinstance(error, camshaft.CamshaftError) and isinstance(error, NotImplementedError)
    with pytest.raises(camshaft.InvalidModel):
        camshaft.build(b"this is no model")
    with pytest.raises(TypeError, match="ModelProto"):
        camshaft.build(42)


def test_the_librarys_log_is_pythons(caplog, matmul):
    with caplog.at_level(logging.WARNING, "camshaft"):
        camshaft.build(matmul[0])  # dynamic, without shapes
    assert any(record.name == "camshaft" and record.levelno == logging.WARNING for record in caplog.records)
    with pytest.raises(ValueError, match="loud"):
        camshaft.log.set_level("loud")


def test_models_are_looked_into_without_a_build(matmul):
    info = camshaft.inspect_model(matmul[0])
    assert info.facts["opset"] == 17 and info.facts["node_count"] == 2 and info.inputs[0].shape == ("batch", 16)


def test_portable_engines_carry_more(conv, image):
    plain, portable = (camshaft.build(conv, optimization_level=0, portable=portable) for portable in (False, True))
    assert len(portable.bytes) > len(plain.bytes)
    np.testing.assert_array_equal(portable.session().run({"x": image})[0], plain.session().run({"x": image})[0])


def test_sixteen_bit_builds_stay_close(conv, image):
    expected = camshaft.build(conv).session().run({"x": image})[0]
    half = camshaft.build(conv, precision="best").session().run({"x": image})[0]
    np.testing.assert_allclose(half, expected, rtol=0.05, atol=0.1)


def test_external_data_is_found_beside_bytes(tmp_path):
    import onnx
    weights = np.ones((64, 64), "f")
    proto = model([helper.make_node("MatMul", ["x", "w"], ["y"])], [value("x", TensorProto.FLOAT, [1, 64])],
                  [value("y", TensorProto.FLOAT, [1, 64])], {"w": weights})
    path = tmp_path / "m.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="w.bin", size_threshold=16)
    with pytest.raises(camshaft.CamshaftError):
        camshaft.build(path.read_bytes())
    y, = camshaft.Session(path.read_bytes(), external_data=tmp_path).run({"x": np.ones((1, 64), "f")})
    np.testing.assert_allclose(y, 64)


def test_bars_are_drawn_in_a_terminal(conv, monkeypatch, capsys):
    from camshaft.progress import TerminalBar, progress_callback
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with progress_callback(True) as bar:
        assert isinstance(bar, TerminalBar)
        camshaft.build(conv, progress=bar)
    drawn = capsys.readouterr().err
    assert "#" in drawn and drawn.endswith("\r\x1b[K")


def test_profiles_open_loops():
    body = helper.make_graph(
        [helper.make_node("Softmax", ["s"], ["next_s"], name="softmax", axis=-1), helper.make_node("Identity", ["c"], ["goes_on"])], "rounds",
        [value("i", TensorProto.INT64, []), value("c", TensorProto.BOOL, []), value("s", TensorProto.FLOAT, [4, 6])],
        [value("goes_on", TensorProto.BOOL, []), value("next_s", TensorProto.FLOAT, [4, 6])])
    numbers = [helper.make_tensor("rounds", TensorProto.INT64, [], [5]), helper.make_tensor("true", TensorProto.BOOL, [], [True])]
    nodes = [helper.make_node("Loop", ["rounds", "true", "x"], ["last"], name="loop", body=body), helper.make_node("Exp", ["last"], ["y"], name="exp")]
    graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, [4, 6])], [value("y", TensorProto.FLOAT, [4, 6])], numbers)
    engine = camshaft.build(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7))
    loop = engine.layers.find("loop")
    inner = next(layer for layer in loop.inner if layer.name == "softmax")
    assert inner.type == "SoftMax" and inner.body == "rounds" and inner.outputs[0].shape == [4, 6] and loop.tactic_text == "its body"
    profile = engine.profile(runs=4)
    inside = {record["name"]: record for record in profile.inside(loop.index)}
    assert inside["softmax"]["calls"] == 5 and inside["softmax"]["tactic"] == inner.tactic
    assert abs(sum(row.percentage for row in profile) - 100) < 1 and profile.inside(engine.layers.find("exp").index) == []
