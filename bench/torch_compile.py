#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch.compile: Camshaft beside inductor (as it is, and with frozen weights) and eager PyTorch on transformers architectures.

Configurations are small, weights random: what is compared is time, and outputs with eager PyTorch's. Runs are interleaved; the table has
medians and ratios. Needs torch, transformers, onnx, onnxscript and camshaft in the environment, and a C++ compiler for inductor.
"""
import argparse
import logging
import statistics
import time
import warnings

import torch
import transformers as hf
from torch.utils._pytree import tree_leaves

LAYERS, WORDS = 4, 1000
SPECIAL = {"bos_token_id": 1, "eos_token_id": 2}


def networks_of(width):
    """Name to (model class, configuration); ids for text, pixels for images."""
    heads, inner = width // 64, 4 * width
    text = {"hidden_size": width, "num_hidden_layers": LAYERS, "num_attention_heads": heads, "intermediate_size": inner, "vocab_size": WORDS}
    decoder = {**text, "num_key_value_heads": heads // 2, "use_cache": False}
    experts = {**decoder, "intermediate_size": 2 * width, "head_dim": 64}
    image = {"hidden_size": width, "num_hidden_layers": LAYERS, "num_attention_heads": heads, "intermediate_size": inner, "image_size": 128,
             "patch_size": 16}
    return {
        "BERT": (hf.BertModel, hf.BertConfig(**text)),
        "DistilBERT": (hf.DistilBertModel, hf.DistilBertConfig(dim=width, n_layers=LAYERS, n_heads=heads, hidden_dim=inner, vocab_size=WORDS)),
        "RoBERTa": (hf.RobertaModel, hf.RobertaConfig(**text)),
        "ELECTRA": (hf.ElectraModel, hf.ElectraConfig(embedding_size=128, **text)),
        "GPT-2": (hf.GPT2LMHeadModel, hf.GPT2Config(n_embd=width, n_layer=LAYERS, n_head=heads, vocab_size=WORDS, use_cache=False, **SPECIAL)),
        "Llama": (hf.LlamaForCausalLM, hf.LlamaConfig(**decoder)),
        "Qwen2": (hf.Qwen2ForCausalLM, hf.Qwen2Config(**decoder)),
        "Mistral": (hf.MistralForCausalLM, hf.MistralConfig(**decoder)),
        "Gemma": (hf.GemmaForCausalLM, hf.GemmaConfig(head_dim=64, **decoder)),
        "Mixtral": (hf.MixtralForCausalLM, hf.MixtralConfig(num_local_experts=8, **experts)),
        "Qwen3-MoE": (hf.Qwen3MoeForCausalLM, hf.Qwen3MoeConfig(num_experts=16, num_experts_per_tok=4, moe_intermediate_size=width, **experts)),
        "T5 encoder": (hf.T5EncoderModel, hf.T5Config(d_model=width, d_kv=64, num_heads=heads, num_layers=LAYERS, d_ff=inner, vocab_size=WORDS)),
        "ViT": (hf.ViTModel, hf.ViTConfig(**image)),
        "CLIP vision": (hf.CLIPVisionModel, hf.CLIPVisionConfig(**image)),
        "Swin": (hf.SwinModel, hf.SwinConfig(image_size=128, patch_size=4, embed_dim=48, depths=[2, 2], num_heads=[2, 4], window_size=4)),
        "ResNet": (hf.ResNetModel, hf.ResNetConfig(embedding_size=32, hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2])),
        "ConvNeXt": (hf.ConvNextModel, hf.ConvNextConfig(hidden_sizes=[48, 96, 192, 384], depths=[2, 2, 2, 2])),
    }


DECODERS = ("GPT-2", "Llama", "Qwen2", "Mistral", "Gemma", "Mixtral", "Qwen3-MoE")
BACKENDS = {"eager": None, "inductor": {"backend": "inductor"}, "frozen": {"backend": "inductor", "options": {"freezing": True}},
            "camshaft": {"backend": "camshaft"}}


def feed_of(configuration, length):
    if hasattr(configuration, "vocab_size"):
        return {"input_ids": torch.randint(3, WORDS, (1, length))}
    return {"pixel_values": torch.randn(1, 3, getattr(configuration, "image_size", 128) or 128, getattr(configuration, "image_size", 128) or 128)}


def tensors(output):
    return [leaf for leaf in tree_leaves(dict(output)) if isinstance(leaf, torch.Tensor)]


def compiled(network, threads):
    """The network by backend."""
    options = {**BACKENDS, "camshaft": {**BACKENDS["camshaft"], "options": {"threads": threads}}}
    return {backend: network if words is None else torch.compile(network, **words) for backend, words in options.items()}


def build(network_class, configuration, quantization):
    """With random weights; ``quantization`` is the name of one of torchao's configurations."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    network = network_class(configuration).eval()
    if quantization:
        import torchao.quantization as torchao
        torchao.quantize_(network, getattr(torchao, quantization)())
    return network


def prepare(network, length, threads):
    """Backend to a function of one run, and the largest difference from eager."""
    feed = feed_of(network.config, length)
    expected, runs, differences = tensors(network(**feed)), {}, {}
    for backend, function in compiled(network, threads).items():
        actual = tensors(function(**feed))
        differences[backend] = max((a.float() - b.float()).abs().max().item() for a, b in zip(expected, actual))
        runs[backend] = lambda function=function: function(**feed)
    return runs, differences


def measure(runs, seconds):
    """Medians of interleaved runs."""
    times = {name: [] for name in runs}
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(times["eager"]) < 7:
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def decode(network, rows, prompt, threads, seconds):
    """Median milliseconds of a step by backend, with a static cache of so many rows each; the largest difference of the scores from eager's."""
    configuration, ids = network.config, torch.randint(3, WORDS, (1, rows))
    functions = compiled(network, threads)
    times, difference, end = {backend: [] for backend in functions}, 0.0, None
    while end is None or time.monotonic() < end:
        caches = {backend: hf.StaticCache(config=configuration, max_cache_len=rows) for backend in functions}
        for backend, function in functions.items():
            function(input_ids=ids[:, :prompt], past_key_values=caches[backend], cache_position=torch.arange(prompt))
        for position in range(prompt, rows):
            scores = {}
            for backend, function in functions.items():
                start = time.perf_counter()
                scores[backend] = function(input_ids=ids[:, position:position + 1], past_key_values=caches[backend], cache_position=torch.tensor([position])).logits
                times[backend].append(time.perf_counter() - start)
            difference = max(difference, (scores["camshaft"] - scores["eager"]).abs().max().item())
            if end is not None and time.monotonic() > end:
                break
        if end is None:  # that was to compile
            end, times = time.monotonic() + seconds, {backend: [] for backend in functions}
    return {backend: statistics.median(values) * 1e3 for backend, values in times.items()}, difference


def print_row(name, ms, difference):
    print(f"| {name} | {ms['eager']:.2f} | {ms['inductor']:.2f} | {ms['frozen']:.2f} | {ms['camshaft']:.2f} "
          f"| {ms['inductor'] / ms['camshaft']:.2f} | {ms['frozen'] / ms['camshaft']:.2f} | {difference:.1e} |", flush=True)


def main():
    names = list(networks_of(256))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", help="of " + ", ".join(names))
    parser.add_argument("--length", type=int, default=64, help="words of a text")
    parser.add_argument("--width", type=int, default=256, help="of transformers, a multiple of 128")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--decode", type=int, metavar="ROWS", help="time steps of decoders behind --length words, with a static cache of so many rows")
    parser.add_argument("--torchao", metavar="CONFIG", help="weights quantized by torchao: Int8WeightOnlyConfig, Int8DynamicActivationInt8WeightConfig …")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.INFO)
    torch.set_num_threads(arguments.threads)
    networks = networks_of(arguments.width)
    print("| network | eager ms | inductor ms | frozen ms | Camshaft ms | inductor / Camshaft | frozen / Camshaft | error |")
    print("|---|---|---|---|---|---|---|---|")
    with torch.no_grad():
        for name in arguments.networks or (DECODERS if arguments.decode else names):
            network_class, configuration = networks[name]
            if arguments.decode:
                configuration.use_cache = True
                configuration.max_position_embeddings = configuration.n_positions = max(arguments.decode, 1024)
            network = build(network_class, configuration, arguments.torchao)
            if arguments.decode:
                print_row(name, *decode(network, arguments.decode, arguments.length, arguments.threads, arguments.seconds))
                continue
            runs, differences = prepare(network, arguments.length, arguments.threads)
            ms = {backend: seconds * 1e3 for backend, seconds in measure(runs, arguments.seconds).items()}
            print_row(name, ms, differences["camshaft"])


if __name__ == "__main__":
    main()
