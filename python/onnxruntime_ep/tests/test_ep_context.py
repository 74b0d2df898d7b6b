# SPDX-License-Identifier: Apache-2.0
"""Engines inside ONNX files, and layers in ONNX Runtime's profile."""
import json

import numpy as np
import pytest
from ep_models import (NAME, TensorProto, VERSION, assert_whole, cache_folder, conv_relu, cpu_run, devices, helper, image, model, onnx,  # noqa: F401
                       open_session, ort, session_options, since, value)


def context_nodes(path):
    return [node for node in onnx.load(path).graph.node if node.op_type == "EPContext"]


def attributes(node):
    return {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}


@pytest.mark.parametrize("embed", ["0", "1"])
def test_a_session_writes_its_engine_and_reads_it(tmp_path, embed):
    onnx.save(conv_relu(), tmp_path / "m.onnx")
    options = session_options(ep__context_enable="1", ep__context_embed_mode=embed, ep__context_file_path=str(tmp_path / "c.onnx"))
    open_session(tmp_path / "m.onnx", options)
    node, = context_nodes(tmp_path / "c.onnx")
    facts = attributes(node)
    assert facts["source"] == NAME.encode() and facts["embed_mode"] == int(embed)
    engines = [path.name for path in tmp_path.glob("*.engine")]
    assert engines == ([] if embed == "1" else [facts["ep_cache_context"].decode()])
    (tmp_path / "m.onnx").unlink()
    session = open_session(tmp_path / "c.onnx", cache=0)
    assert_whole(session)
    np.testing.assert_allclose(session.run(None, {"x": image()})[0], cpu_run(conv_relu(), {"x": image()})[0], rtol=1e-4, atol=1e-5)


def test_the_model_compiler(tmp_path):
    onnx.save(conv_relu(("n", 3, 8, 8)), tmp_path / "m.onnx")
    options = session_options()
    options.add_provider_for_devices(devices(), {"optimization_level": "0"})
    ort.ModelCompiler(options, str(tmp_path / "m.onnx"), embed_compiled_data_into_model=True).compile_to_file(str(tmp_path / "c.onnx"))
    session = open_session(tmp_path / "c.onnx")
    for batch in (1, 3):
        x = image(batch, 3, 8, 8)
        np.testing.assert_allclose(session.run(None, {"x": x})[0], cpu_run(conv_relu(("n", 3, 8, 8)), {"x": x})[0], rtol=1e-4, atol=1e-5)


def test_parts_become_several_engines(tmp_path):
    strings = [helper.make_node("Neg", ["x"], ["a"], "a"), helper.make_node("Cast", ["a"], ["s"], "to_text", to=TensorProto.STRING),
               helper.make_node("Cast", ["s"], ["b"], "from_text", to=TensorProto.FLOAT), helper.make_node("Abs", ["b"], ["y"], "b")]
    network = model(strings, [value("x", TensorProto.FLOAT, [3])], [value("y", TensorProto.FLOAT, [3])])
    options = session_options(ep__context_enable="1", ep__context_file_path=str(tmp_path / "c.onnx"))
    open_session(network, options, min_nodes=1)
    assert len(context_nodes(tmp_path / "c.onnx")) == 2 and len(list(tmp_path.glob("*.engine"))) == 2
    session = open_session(tmp_path / "c.onnx")
    np.testing.assert_array_equal(session.run(None, {"x": np.array([1, -2, 3], "f")})[0], [1, 2, 3])


def damaged(path, change):
    network = onnx.load(path)
    for attribute in network.graph.node[0].attribute:
        if attribute.name == "ep_cache_context":
            attribute.s = change(attribute.s)
    onnx.save(network, path)
    return path


@pytest.mark.parametrize("change", [lambda s: s[: len(s) // 2], lambda s: b"", lambda s: b"\x00" * len(s)])
def test_damaged_engines_are_refused(tmp_path, change):
    options = session_options(ep__context_enable="1", ep__context_embed_mode="1", ep__context_file_path=str(tmp_path / "c.onnx"))
    open_session(conv_relu(), options)
    with pytest.raises(Exception, match="Camshaft: EPContext node"):
        open_session(damaged(tmp_path / "c.onnx", change))


def test_engines_elsewhere_are_refused(tmp_path):
    options = session_options(ep__context_enable="1", ep__context_file_path=str(tmp_path / "c.onnx"))
    open_session(conv_relu(), options)
    for path in (b"../x.engine", b"/etc/passwd"):
        with pytest.raises(Exception, match="does not lie beside the model"):
            open_session(damaged(tmp_path / "c.onnx", lambda _, path=path: path))
    with pytest.raises(Exception, match="missing.engine"):
        open_session(damaged(tmp_path / "c.onnx", lambda _: b"missing.engine"))


@since(31, "an application's functions for engines")
@pytest.mark.parametrize("from_bytes", [False, True])
def test_an_application_keeps_the_engines(tmp_path, from_bytes):
    """Handed out and taken back under their names, here turned around; no file beside the model."""
    kept = {}
    onnx.save(conv_relu(), tmp_path / "m.onnx")
    options = session_options()
    options.add_provider_for_devices(devices(), {"optimization_level": "0"})
    compiler = ort.ModelCompiler(options, conv_relu().SerializeToString() if from_bytes else str(tmp_path / "m.onnx"), embed_compiled_data_into_model=False)
    compiler.set_ep_context_data_write_func(lambda name, data: kept.__setitem__(name, data.read()[::-1]))
    compiler.compile_to_file(str(tmp_path / "c.onnx"))
    node, = context_nodes(tmp_path / "c.onnx")
    name = attributes(node)["ep_cache_context"].decode()
    assert list(kept) == [name] and not list(tmp_path.glob("*.engine"))

    def read(asked, buffer):
        buffer.allocate(len(kept[asked]))
        buffer.write(kept[asked][::-1])

    options = session_options()
    options.set_ep_context_data_read_func(read, 1 << 30)
    session = open_session(tmp_path / "c.onnx", options, cache=0)
    assert_whole(session)
    np.testing.assert_allclose(session.run(None, {"x": image()})[0], cpu_run(conv_relu(), {"x": image()})[0], rtol=1e-4, atol=1e-5)

    def fails(asked, buffer):
        raise KeyError(f"no key for {asked}")

    options = session_options()
    options.set_ep_context_data_read_func(fails, 1 << 30)
    with pytest.raises(Exception, match="no key for"):
        open_session(tmp_path / "c.onnx", options, cache=0)
    with pytest.raises(Exception, match=name):  # without the functions it is a file that is not there
        open_session(tmp_path / "c.onnx", cache=0)


@since(25, "profiles of plugins")
def test_layers_are_in_the_profile(tmp_path):
    options = session_options()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "profile")
    session = open_session(conv_relu(), options)
    for _ in range(3):
        session.run(None, {"x": image()})
    events = json.loads(open(session.end_profiling()).read())
    layers = [event for event in events if "tactic" in event.get("args", {})]
    runs = [event for event in events if event["name"] == "model_run"]
    assert len(runs) == 3 and len(layers) >= 3 and len(layers) % 3 == 0
    assert any("conv" in layer["name"] for layer in layers)
    for layer in layers:  # inside one of the runs
        assert any(run["ts"] <= layer["ts"] + 1 and layer["ts"] + layer["dur"] <= run["ts"] + run["dur"] + 2 for run in runs), layer
