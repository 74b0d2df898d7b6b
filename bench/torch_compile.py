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

WIDTH, LAYERS, HEADS, INNER, WORDS = 256, 4, 4, 1024, 1000
TEXT = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "intermediate_size": INNER, "vocab_size": WORDS}
DECODER = {**TEXT, "num_key_value_heads": 2, "use_cache": False}
IMAGE = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "intermediate_size": INNER, "image_size": 128,
         "patch_size": 16}
SPECIAL = {"bos_token_id": 1, "eos_token_id": 2}

# Name to (model class, configuration); ids for text, pixels for images.
NETWORKS = {
    "BERT": (hf.BertModel, lambda: hf.BertConfig(**TEXT)),
    "DistilBERT": (hf.DistilBertModel, lambda: hf.DistilBertConfig(dim=WIDTH, n_layers=LAYERS, n_heads=HEADS, hidden_dim=INNER, vocab_size=WORDS)),
    "RoBERTa": (hf.RobertaModel, lambda: hf.RobertaConfig(**TEXT)),
    "ELECTRA": (hf.ElectraModel, lambda: hf.ElectraConfig(embedding_size=128, **TEXT)),
    "GPT-2": (hf.GPT2LMHeadModel, lambda: hf.GPT2Config(n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, vocab_size=WORDS, use_cache=False, **SPECIAL)),
    "Llama": (hf.LlamaForCausalLM, lambda: hf.LlamaConfig(**DECODER)),
    "Qwen2": (hf.Qwen2ForCausalLM, lambda: hf.Qwen2Config(**DECODER)),
    "Mistral": (hf.MistralForCausalLM, lambda: hf.MistralConfig(**DECODER)),
    "Gemma": (hf.GemmaForCausalLM, lambda: hf.GemmaConfig(head_dim=64, **DECODER)),
    "T5 encoder": (hf.T5EncoderModel, lambda: hf.T5Config(d_model=WIDTH, d_kv=64, num_heads=HEADS, num_layers=LAYERS, d_ff=INNER, vocab_size=WORDS)),
    "ViT": (hf.ViTModel, lambda: hf.ViTConfig(**IMAGE)),
    "CLIP vision": (hf.CLIPVisionModel, lambda: hf.CLIPVisionConfig(**IMAGE)),
    "Swin": (hf.SwinModel, lambda: hf.SwinConfig(image_size=128, patch_size=4, embed_dim=48, depths=[2, 2], num_heads=[2, 4], window_size=4)),
    "ResNet": (hf.ResNetModel, lambda: hf.ResNetConfig(embedding_size=32, hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2])),
    "ConvNeXt": (hf.ConvNextModel, lambda: hf.ConvNextConfig(hidden_sizes=[48, 96, 192, 384], depths=[2, 2, 2, 2])),
}
DECODERS = ("GPT-2", "Llama", "Qwen2", "Mistral", "Gemma")
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


def prepare(name, length, threads):
    """Backend to a function of one run, and the largest difference from eager."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    cls, make = NETWORKS[name]
    configuration = make()
    network, feed = cls(configuration).eval(), feed_of(configuration, length)
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


def decode(name, rows, prompt, threads, seconds):
    """Median milliseconds of a step by backend, with a static cache of so many rows each; the largest difference of the scores from eager's."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    cls, make = NETWORKS[name]
    configuration = make()
    configuration.use_cache = True
    configuration.max_position_embeddings = configuration.n_positions = max(rows, 1024)
    network, ids = cls(configuration).eval(), torch.randint(3, WORDS, (1, rows))
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", help="of " + ", ".join(NETWORKS))
    parser.add_argument("--length", type=int, default=64, help="words of a text")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--decode", type=int, metavar="ROWS", help="time steps of decoders behind --length words, with a static cache of so many rows")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.INFO)
    torch.set_num_threads(arguments.threads)
    print("| network | eager ms | inductor ms | frozen ms | Camshaft ms | inductor / Camshaft | frozen / Camshaft | error |")
    print("|---|---|---|---|---|---|---|---|")
    with torch.no_grad():
        for name in arguments.networks or (DECODERS if arguments.decode else NETWORKS):
            if arguments.decode:
                print_row(name, *decode(name, arguments.decode, arguments.length, arguments.threads, arguments.seconds))
                continue
            runs, differences = prepare(name, arguments.length, arguments.threads)
            ms = {backend: seconds * 1e3 for backend, seconds in measure(runs, arguments.seconds).items()}
            print_row(name, ms, differences["camshaft"])


if __name__ == "__main__":
    main()
