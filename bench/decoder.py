#!/usr/bin/env python3
"""A decoder as onnxruntime-genai's builder writes it (MatMulNBits, GroupQueryAttention with packed queries and rotary inside, SkipSimplifiedLayerNormalization,
keys and values as inputs and outputs), with seeded random weights; and generation with it beside ONNX Runtime, onnxruntime-genai or llama.cpp.

    decoder.py make m.onnx [--layers 4 --width 896 --heads 14 --kv 2 --inner 4864 --vocabulary 32000 --bits 4 --block 32 --level 0 --float --apart]
    decoder.py compare m.onnx [--peer onnxruntime|genai|llama.cpp|openvino] [--camshaft build/release/bin/camshaft] [--prompt 64 --steps 32 --threads 1]

`make` needs numpy and onnx, `compare` onnxruntime as well, or onnxruntime-genai (--peer genai), whose past and present share a buffer: onnxruntime copies the
past in every step; or, for models of `make` with 4 bits in blocks of 32, llama-cpp-python and gguf (--peer llama.cpp; build it from source for this machine's
instructions): the same codes as Q4_0, scales rounded to 16 bits, keys and values in 16 bits, as it comes; or openvino, whose keys and values become states of
its own, as openvino-genai has them. Weights are synthetic: they say nothing about quality, and speed does not depend on them."""

import argparse
import json
import pathlib
import subprocess
import time

import numpy as np


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    make = commands.add_parser("make")
    make.add_argument("file", type=pathlib.Path)
    for name, value in dict(layers=4, width=896, heads=14, kv=2, inner=4864, vocabulary=32000, bits=4, block=32, level=0, seed=1).items():
        make.add_argument(f"--{name}", type=int, default=value)
    make.add_argument("--float", action="store_true", help="weights as floats instead")
    make.add_argument("--apart", action="store_true", help="queries, keys and values of products of their own")
    compare = commands.add_parser("compare")
    compare.add_argument("file", type=pathlib.Path)
    compare.add_argument("--camshaft", default="build/release/bin/camshaft")
    compare.add_argument("--peer", choices=["onnxruntime", "genai", "llama.cpp", "openvino"], default="onnxruntime")
    compare.add_argument("--python", action="store_true", help="check every step's logits, by the Python package")
    for name, value in dict(prompt=64, steps=32, threads=1, rounds=2).items():
        compare.add_argument(f"--{name}", type=int, default=value)
    return parser.parse_args()


class Decoder:
    def __init__(self, a):
        from onnx import TensorProto, helper, numpy_helper
        self.a, self.helper, self.types, self.numpy_helper = a, helper, TensorProto, numpy_helper
        self.random = np.random.default_rng(a.seed)
        self.nodes, self.stored = [], []

    def store(self, name, array):
        self.stored.append(self.numpy_helper.from_array(array, name))
        return name

    def node(self, op, inputs, outputs, domain="com.microsoft", **attributes):
        self.nodes.append(self.helper.make_node(op, inputs, outputs, name=outputs[0], domain=domain, **attributes))
        return outputs[0]

    def product(self, name, x, n, k, bits=None):
        a, bits = self.a, bits or self.a.bits
        w = self.random.standard_normal((n, k), np.float32) / np.sqrt(k, dtype=np.float32)
        if a.float:
            return self.node("MatMul", [x, self.store(name + ".w", w.T.copy())], [name], domain="")
        w = np.pad(w, ((0, 0), (0, -k % a.block))).reshape(n, -1, a.block)
        half = 1 << (bits - 1)
        scale = np.maximum(np.abs(w).max(-1), 1e-8) / half
        codes = np.clip(np.rint(w / scale[..., None]) + half, 0, 2 * half - 1).astype(np.uint8)
        if bits == 4:
            codes = codes[..., 0::2] | codes[..., 1::2] << 4
        inputs = [x, self.store(name + ".codes", codes), self.store(name + ".scales", scale.astype(np.float32).reshape(-1))]
        return self.node("MatMulNBits", inputs, [name], N=n, K=k, bits=bits, block_size=a.block, accuracy_level=a.level)

    def norm(self, name, x, skip, last=False):
        weight = self.store(name + ".weight", (1 + 0.1 * self.random.standard_normal(self.a.width)).astype(np.float32))
        if skip is None:
            return self.node("SimplifiedLayerNormalization", [x, weight], [name], domain="", epsilon=1e-6, axis=-1, stash_type=1), x
        self.node("SkipSimplifiedLayerNormalization", [x, skip, weight], [name] if last else [name, "", "", name + ".sum"], epsilon=1e-6)
        return name, name + ".sum"

    def model(self):
        a, value = self.a, self.helper.make_tensor_value_info
        depth = a.width // a.heads
        angles = np.outer(np.arange(4096), 1e4 ** (-np.arange(0, depth, 2) / depth))
        cosine, sine = self.store("cosine", np.cos(angles).astype(np.float32)), self.store("sine", np.sin(angles).astype(np.float32))
        # What builders compute from the mask: the length of each item less one, and the longest.
        self.node("ReduceSum", ["attention_mask", self.store("axis", np.array([1], np.int64))], ["lengths_1"], domain="", keepdims=0)
        self.node("Sub", ["lengths_1", self.store("one", np.array(1, np.int64))], ["lengths_64"], domain="")
        self.node("Cast", ["lengths_64"], ["lengths"], domain="", to=self.types.INT32)
        self.node("Shape", ["attention_mask"], ["mask_shape"], domain="")
        self.node("Gather", ["mask_shape", self.store("index_1", np.array(1, np.int64))], ["total_64"], domain="", axis=0)
        self.node("Cast", ["total_64"], ["total"], domain="", to=self.types.INT32)
        table = self.store("table", (0.5 * self.random.standard_normal((a.vocabulary, a.width))).astype(np.float32))
        x, skip = self.node("Gather", [table, "input_ids"], ["embedded"], domain=""), None
        inputs = [value("input_ids", self.types.INT64, ["batch", "steps"]), value("attention_mask", self.types.INT64, ["batch", "total_length"])]
        outputs = [value("logits", self.types.FLOAT, ["batch", "steps", a.vocabulary])]
        for k in range(a.layers):
            name = f"layer.{k}"
            x, skip = self.norm(name + ".norm1", x, skip)
            parts = [(".q", a.heads), (".k", a.kv), (".v", a.kv)] if a.apart else [(".qkv", a.heads + 2 * a.kv)]
            products = [self.product(name + part, x, heads * depth, a.width) for part, heads in parts]
            past, present = f"past_key_values.{k}.", f"present.{k}."
            mixed = self.node("GroupQueryAttention", [*products, *[""] * (3 - len(products)), past + "key", past + "value", "lengths", "total", cosine, sine],
                              [name + ".mixed", present + "key", present + "value"], num_heads=a.heads, kv_num_heads=a.kv, do_rotary=1, rotary_interleaved=0)
            for part in ("key", "value"):
                inputs.append(value(past + part, self.types.FLOAT, ["batch", a.kv, "past_length", depth]))
                outputs.append(value(present + part, self.types.FLOAT, ["batch", a.kv, "total_length", depth]))
            x, skip = self.norm(name + ".norm2", self.product(name + ".o", mixed, a.width, a.width), skip)
            gate, up = self.product(name + ".gate", x, a.inner, a.width), self.product(name + ".up", x, a.inner, a.width)
            self.node("Sigmoid", [gate], [name + ".sigmoid"], domain="")
            self.node("Mul", [gate, name + ".sigmoid"], [name + ".silu"], domain="")
            self.node("Mul", [name + ".silu", up], [name + ".act"], domain="")
            x = self.product(name + ".down", name + ".act", a.width, a.inner)
        x, _ = self.norm("norm", x, skip, last=True)
        self.product("logits", x, a.vocabulary, a.width)
        graph = self.helper.make_graph(self.nodes, "decoder", inputs, outputs, self.stored)
        return self.helper.make_model(graph, opset_imports=[self.helper.make_opsetid("", 21), self.helper.make_opsetid("com.microsoft", 1)], ir_version=10)


class Runtime:
    """Greedy generation by ONNX Runtime, as `camshaft bench --decode` does it."""

    def __init__(self, file, threads):
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        self.caches = [i.name for i in self.session.get_inputs() if "past" in i.name]
        self.shapes = {i.name: i.shape for i in self.session.get_inputs()}
        self.outputs = [o.name for o in self.session.get_outputs()]

    def start(self):
        self.past = {name: np.zeros([d if isinstance(d, int) else (1 if k == 0 else 0) for k, d in enumerate(self.shapes[name])], np.float32) for name in self.caches}

    def feeds(self, tokens):
        length = self.past[self.caches[0]].shape[2] + len(tokens)
        feeds = {"input_ids": np.array([tokens], np.int64), "attention_mask": np.ones((1, length), np.int64), **self.past}
        if "position_ids" in self.shapes:
            feeds["position_ids"] = np.arange(length - len(tokens), length)[None]
        return feeds

    def step(self, tokens):
        results = dict(zip(self.outputs, self.session.run(None, self.feeds(tokens))))
        self.past = {name: results[name.replace("past_key_values", "present")] for name in self.caches}
        return results["logits"][0, -1]

    def next_token(self, tokens):
        return int(np.argmax(self.step(tokens)))


class GenAi:
    """The same by onnxruntime-genai: its own loop, greedy search and caches."""

    def __init__(self, file, threads, length):
        import onnx
        import onnxruntime_genai
        self.genai, self.length = onnxruntime_genai, length
        self.folder = file.with_suffix(".genai")
        self.folder.mkdir(exist_ok=True)
        for stored in file.parent.glob(file.name + "*"):
            if stored.suffix in (".onnx", ".data") and not (self.folder / stored.name).exists():
                (self.folder / stored.name).symlink_to(stored.resolve())
        (self.folder / "genai_config.json").write_text(json.dumps(self.config(onnx.load(file, load_external_data=False).graph, file.name, threads)))
        self.model = onnxruntime_genai.Model(str(self.folder))

    def config(self, graph, filename, threads):
        attention = next(n for n in graph.node if n.op_type == "GroupQueryAttention")
        heads = {a.name: a.i for a in attention.attribute}
        past = [i for i in graph.input if i.name.endswith(".key")]
        depth, vocabulary = (t.type.tensor_type.shape.dim[-1].dim_value for t in (past[0], graph.output[0]))
        decoder = {"session_options": {"intra_op_num_threads": threads, "provider_options": []}, "filename": filename, "head_size": depth,
                   "hidden_size": depth * heads["num_heads"], "num_attention_heads": heads["num_heads"], "num_key_value_heads": heads["kv_num_heads"],
                   "num_hidden_layers": len(past),
                   "inputs": {"input_ids": "input_ids", "attention_mask": "attention_mask", "past_key_names": "past_key_values.%d.key",
                              "past_value_names": "past_key_values.%d.value"},
                   "outputs": {"logits": "logits", "present_key_names": "present.%d.key", "present_value_names": "present.%d.value"}}
        return {"model": {"type": "qwen2", "bos_token_id": 1, "eos_token_id": vocabulary - 1, "pad_token_id": 0, "context_length": 4096,
                          "vocab_size": vocabulary, "decoder": decoder},
                "search": {"do_sample": False, "max_length": 4096, "past_present_share_buffer": True}}

    def start(self):
        parameters = self.genai.GeneratorParams(self.model)
        parameters.set_search_options(max_length=self.length, min_length=self.length, do_sample=False)
        self.generator, self.begun = self.genai.Generator(self.model, parameters), False

    def next_token(self, tokens):
        if not self.begun:  # afterwards it appends what it chose
            self.generator.append_tokens(tokens)
            self.begun = True
        self.generator.generate_next_token()
        return int(self.generator.get_next_tokens()[0])


class LlamaCpp:
    """The same by llama.cpp, which reads the weights from a file of its own format."""

    def __init__(self, file, threads, length):
        import llama_cpp
        self.api = llama_cpp
        gguf = file.with_suffix(".gguf")
        if not gguf.exists():
            LlamaFile(file).write(gguf)
        self.llama = llama_cpp.Llama(str(gguf), n_ctx=length + 1, n_batch=512, n_threads=threads, n_threads_batch=threads, verbose=False)

    def start(self):
        self.llama.reset()

    def next_token(self, tokens):
        self.llama.eval(tokens)
        logits = self.api.llama_get_logits_ith(self.llama.ctx, -1)
        return int(np.argmax(np.ctypeslib.as_array(logits, (self.llama.n_vocab(),))))


class OpenVino:
    """The same by OpenVINO, the model made stateful; rows of codes are quantized as it comes."""

    def __init__(self, file, threads, length):
        import openvino
        from openvino._offline_transformations import apply_make_stateful_transformation
        core = openvino.Core()
        model = core.read_model(str(file))
        past = [i for i in model.inputs if "past" in i.any_name]
        shapes = {i.any_name: [1, -1] for i in model.inputs if i not in past}
        model.reshape(shapes | {i.any_name: [1, i.partial_shape[1], -1, i.partial_shape[3]] for i in past})
        apply_make_stateful_transformation(model, {i.any_name: i.any_name.replace("past_key_values", "present") for i in past})
        self.request = core.compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32"}).create_infer_request()

    def start(self):
        self.request.reset_state()
        self.length = 0

    def next_token(self, tokens):
        self.length += len(tokens)
        results = self.request.infer({"input_ids": np.array([tokens], np.int64), "attention_mask": np.ones((1, self.length), np.int64)})
        return int(np.argmax(next(iter(results.values()))[0, -1]))


class LlamaFile:
    """A model of `make` as a GGUF file of the architecture "llama"."""

    def __init__(self, file):
        import onnx
        from onnx import numpy_helper
        graph = onnx.load(file).graph
        self.stored = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
        attention = next(n for n in graph.node if n.op_type == "GroupQueryAttention")
        attributes = {a.name: a.i for a in attention.attribute}
        self.heads, self.kv = attributes["num_heads"], attributes["kv_num_heads"]
        self.layers = sum(n.op_type == "GroupQueryAttention" for n in graph.node)
        self.depth = 2 * self.stored["cosine"].shape[1]
        self.length, self.width = len(self.stored["cosine"]), self.stored["table"].shape[1]

    def blocks(self, name):
        """Codes of a product as rows of Q4_0 blocks: a scale, then 32 codes, the first half of them in low bits."""
        codes, scales = self.stored[name + ".codes"], self.stored[name + ".scales"]
        if codes.shape[-1] != 16:
            raise SystemExit("decoder.py: llama.cpp takes 4 bits in blocks of 32")
        wide = np.stack([codes & 15, codes >> 4], -1).reshape(*codes.shape[:2], 32)
        halves = scales.reshape(codes.shape[:2] + (1,)).astype(np.float16).view(np.uint8)
        return np.concatenate([halves, wide[..., :16] | wide[..., 16:] << 4], -1).reshape(len(codes), -1)

    def turned(self, rows, heads):
        """Its rotation takes neighbours where ours takes halves."""
        return rows.reshape(heads, 2, self.depth // 2, -1).swapaxes(1, 2).reshape(len(rows), -1)

    def write(self, path):
        import gguf
        writer = gguf.GGUFWriter(str(path), "llama")
        inner, vocabulary = len(self.stored["layer.0.gate.codes"]), len(self.stored["table"])
        writer.add_context_length(self.length)
        writer.add_embedding_length(self.width)
        writer.add_block_count(self.layers)
        writer.add_feed_forward_length(inner)
        writer.add_head_count(self.heads)
        writer.add_head_count_kv(self.kv)
        writer.add_layer_norm_rms_eps(1e-6)
        writer.add_rope_dimension_count(self.depth)
        writer.add_rope_freq_base(1e4)
        writer.add_vocab_size(vocabulary)
        writer.add_tokenizer_model("none")
        floats = {"token_embd": "table", "output_norm": "norm"}
        products = {"output": self.blocks("logits")}
        for k in range(self.layers):
            ours, theirs = f"layer.{k}.", f"blk.{k}."
            floats |= {theirs + "attn_norm": ours + "norm1", theirs + "ffn_norm": ours + "norm2"}
            parts = [ours + p for p in ("q", "k", "v")] if ours + "q.codes" in self.stored else [ours + "qkv"]
            rows = np.concatenate([self.blocks(p) for p in parts])
            q, key, value = np.split(rows, [self.heads * self.depth, (self.heads + self.kv) * self.depth])
            products |= {theirs + "attn_q": self.turned(q, self.heads), theirs + "attn_k": self.turned(key, self.kv), theirs + "attn_v": value,
                         theirs + "attn_output": self.blocks(ours + "o"), theirs + "ffn_gate": self.blocks(ours + "gate"),
                         theirs + "ffn_up": self.blocks(ours + "up"), theirs + "ffn_down": self.blocks(ours + "down")}
        for theirs, ours in floats.items():
            writer.add_tensor(theirs + ".weight", self.stored[ours if ours == "table" else ours + ".weight"])
        for name, rows in products.items():
            writer.add_tensor(name + ".weight", np.ascontiguousarray(rows), raw_dtype=gguf.GGMLQuantizationType.Q4_0)
        for step in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file, writer.close):
            step()


def generate(runtime, prompt, steps):
    runtime.start()
    begin = time.perf_counter()
    tokens = [runtime.next_token([k % 97 + 3 for k in range(prompt)])]
    first, times = time.perf_counter() - begin, []
    for _ in range(steps):
        begin = time.perf_counter()
        tokens.append(runtime.next_token([tokens[-1]]))
        times.append(time.perf_counter() - begin)
    return first * 1e3, float(np.median(times)) * 1e3, tokens


def compare_logits(a):
    import camshaft
    ours, theirs = camshaft.Session(str(a.file)), Runtime(a.file, a.threads)
    theirs.start()
    worst, tokens = 0.0, [k % 97 + 3 for k in range(a.prompt)]
    for _ in range(a.steps):
        results = dict(zip(theirs.outputs, ours.run(theirs.outputs, theirs.feeds(tokens))))
        logits = theirs.step(tokens)
        worst = max(worst, float(np.abs(results["logits"][0, -1] - logits).max() / np.abs(logits).max()))
        tokens = [int(np.argmax(logits))]
    print(f"logits of {a.steps} steps differ by {worst:.1e} of the largest")


def compare(a):
    if a.python:
        return compare_logits(a)
    length = a.prompt + a.steps + 1
    peers = {"genai": GenAi, "llama.cpp": LlamaCpp, "openvino": OpenVino}
    runtime = peers[a.peer](a.file, a.threads, length) if a.peer in peers else Runtime(a.file, a.threads)
    generate(runtime, a.prompt, 4)
    command = [a.camshaft, "bench", str(a.file), "--decode", f"{a.prompt},{a.steps}", "--threads", str(a.threads), "--json", "--timing-cache", str(a.file) + ".times"]
    for _ in range(a.rounds):
        ours = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        first, token, tokens = generate(runtime, a.prompt, a.steps)
        same = next((k for k, (x, y) in enumerate(zip(tokens, ours["tokens"])) if x != y), len(tokens))
        print(f"first token {ours['timeToFirstTokenMs']:.1f} ms, {a.peer} {first:.1f} ({first / ours['timeToFirstTokenMs']:.2f} x); "
              f"token {ours['tokenMs']['median']:.2f} ms, {a.peer} {token:.2f} ({token / ours['tokenMs']['median']:.2f} x); plan {ours['planMs']:.2f} ms; "
              f"{ours['gbytesPerSecond']:.1f} GB/s of {ours['readGbytesPerSecond']:.1f}; first {same} of {len(tokens)} tokens equal")


def main():
    a = arguments()
    if a.command == "compare":
        return compare(a)
    import onnx
    model = Decoder(a).model()
    if model.ByteSize() < 1 << 30:
        onnx.save(model, str(a.file))
    else:
        onnx.save(model, str(a.file), save_as_external_data=True, location=a.file.name + ".data")
    print(f"{a.file}: {sum(np.prod(t.dims) for t in model.graph.initializer) / 1e6:.0f} M numbers stored")


if __name__ == "__main__":
    main()
