#!/usr/bin/env python3
"""A small network of every architecture of `transformers`, exported: some three hundred that nobody chose.

    tests/zoo/architectures.py OUT              all of them, a process each; says what it left out and why
    tests/zoo/architectures.py OUT TYPE…        these: electra, qwen3_next …

Widths of 256, two layers, four heads, seeded weights; nothing is downloaded. Three of four go through the TorchScript exporter (_ts), the
others through the dynamic one, and through the other where that fails. `tests/zoo/run.py OUT` compares and times them."""

import collections
import os
import pathlib
import shutil
import subprocess
import sys
import warnings

SECONDS = 120  # per network
MOST_PARAMETERS = 150e6
SIZES = {
    256: "hidden_size d_model n_embd dim embed_dim encoder_embed_dim decoder_embed_dim embedding_size word_embed_proj_dim",
    512: "intermediate_size encoder_ffn_dim decoder_ffn_dim d_ff ffn_dim hidden_dim d_inner max_position_embeddings n_positions",
    128: "moe_intermediate_size expert_ffn_size shared_expert_intermediate_size projection_dim",
    64: "d_kv kv_lora_rank linear_key_head_dim linear_value_head_dim mamba_d_head",
    96: "q_lora_rank",
    32: "qk_nope_head_dim qk_rope_head_dim v_head_dim",
    8: "mamba_n_heads",
    4: "num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads num_experts num_local_experts "
       "n_routed_experts linear_num_value_heads",
    2: "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers num_encoder_layers num_decoder_layers "
       "num_key_value_heads num_experts_per_tok linear_num_key_heads",
    1: "n_shared_experts n_group topk_group first_k_dense_replace",
    2000: "vocab_size",
}
SPECIAL_WORDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
WORDS = 48
SOUNDS = ((1, 16000), (1, 200, None), (1, None, 200), (1, None, 3000), (1, 1, 16000), (1, 2, 16000), (1, 1024, 128))  # None: bins of the spectrum


class Left(Exception):
    """Why there is no network of an architecture."""


def parts_of(configuration):
    return [value for value in vars(configuration).values() if hasattr(value, "model_type") and hasattr(value, "to_dict")]


def shrink(configuration):
    """Sizes that it states itself; what is None follows from others."""
    for size, names in SIZES.items():
        for name in names.split():
            if isinstance(getattr(configuration, name, None), int) and not isinstance(getattr(configuration, name), bool):
                setattr(configuration, name, size)
    for name, word in SPECIAL_WORDS.items():
        if getattr(configuration, name, None) is not None:
            setattr(configuration, name, word)
    if isinstance(getattr(configuration, "layer_types", None), list):  # two layers, of two kinds where there are
        kinds = configuration.layer_types
        configuration.layer_types = (list(dict.fromkeys(kinds)) if len(set(kinds)) > 1 else kinds)[:2]
    if hasattr(configuration, "use_cache"):
        configuration.use_cache = False
    for part in parts_of(configuration):
        shrink(part)


def find(configuration, *names):
    """The first of these that it or a part of it has."""
    for name in names:
        if getattr(configuration, name, None) is not None:
            return getattr(configuration, name)
    return next((found for part in parts_of(configuration) if (found := find(part, *names)) is not None), None)


def possible_inputs(name, configuration):
    """Sets of inputs a network with this main input may take, the likeliest first."""
    import torch
    words = torch.randint(3, min(find(configuration, "vocab_size") or 1000, 1000), (1, WORDS))
    mask, edge = torch.ones_like(words), find(configuration, "image_size") or 224
    if isinstance(edge, dict):
        edge = edge.get("height", 224)
    height, width = (edge, edge) if isinstance(edge, int) else edge[-2:]
    picture = torch.randn(1, find(configuration, "num_channels", "in_channels") or 3, height, width)
    if name == "input_ids":
        boxes = torch.randint(0, 500, (1, WORDS, 2)).repeat(1, 1, 2).sort(-1).values
        yield from ({"input_ids": words, **more} for more in (
            {"attention_mask": mask}, {}, {"decoder_input_ids": words[:, :16]}, {"pixel_values": picture},
            {"attention_mask": mask, "pixel_values": picture}, {"bbox": boxes}))
    elif name == "pixel_values":
        yield from ({"pixel_values": picture, **more} for more in ({}, {"input_ids": words}, {"decoder_input_ids": words[:, :16]}))
        yield from ({"pixel_values": torch.randn(*shape)} for shape in ((1, 3, 224, 224), (1, 16, 3, 224, 224), (1, 8, 3, 224, 224)))
    elif name in ("input_features", "input_values"):
        bins = find(configuration, "num_mel_bins", "input_feat_per_channel", "n_mels", "num_mels", "feature_size") or 80
        for shape in SOUNDS:
            sound = torch.randn(*[bins if extent is None else extent for extent in shape])
            yield {name: sound}
            yield {name: sound, "decoder_input_ids": words[:, :16]}
        yield {name: torch.randint(3, 60, (1, WORDS))}
    elif name == "past_values":
        yield {name: torch.randn(1, find(configuration, "context_length") or 32, find(configuration, "num_input_channels") or 1)}


def make(kind):
    """The architecture's bare model, small."""
    import torch
    from transformers import CONFIG_MAPPING, MODEL_MAPPING
    configuration = CONFIG_MAPPING[kind]()
    shrink(configuration)
    configuration._experts_implementation = "batched_mm"  # the only one that exporters take
    made = MODEL_MAPPING[type(configuration)]
    made = made[0] if isinstance(made, tuple) else made
    try:
        module = made._from_config(configuration)
    except ValueError:
        configuration._attn_implementation = "eager"
        module = made._from_config(configuration)
    module = module.eval().float()
    count = sum(parameter.numel() for parameter in module.parameters())
    if count > MOST_PARAMETERS:
        raise Left(f"{count / 1e6:.0f} million parameters")
    for parameter in module.parameters():
        if parameter.ndim == 1 and not parameter.any():
            torch.nn.init.normal_(parameter, std=0.02)
    return module, configuration


def accepted_inputs(module, configuration):
    name, reason = module.main_input_name, ""
    for inputs in possible_inputs(name if isinstance(name, str) else name[0], configuration):
        try:
            module(**inputs)
            return inputs
        except Exception as error:  # noqa: BLE001, whatever the model's reason is
            reason = str(error).split("\n")[0]
    raise Left(f"takes none of the inputs tried for {name}: {reason}")


def folder_of(out, kind, exporter):
    return out / (f"hf_{kind}".replace("-", "_") + ("_ts" if exporter == "script" else ""))


def export(out, kind, exporter):
    import numpy as np
    import onnx
    import onnx.numpy_helper
    import torch
    torch.manual_seed(0)
    torch.set_num_threads(1)
    with torch.no_grad():
        module, configuration = make(kind)
        inputs = accepted_inputs(module, configuration)

        class Flat(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.module = module

            def forward(self, *values):
                given = self.module(**dict(zip(inputs, values)))
                tensors = [value for value in given.values() if torch.is_tensor(value) and (value.is_floating_point() or value.dtype == torch.int64)]
                return tuple(tensors[:4])

        outputs = Flat()(*inputs.values())
        if not outputs:
            raise Left("gives no tensors")
        folder = folder_of(out, kind, exporter)
        (folder / "test_data_set_0").mkdir(parents=True, exist_ok=True)
        options = {"dynamo": False, "opset_version": 17} if exporter == "script" else {"dynamo": True, "external_data": False}
        torch.onnx.export(Flat().eval(), tuple(inputs.values()), str(folder / "model.onnx"), input_names=list(inputs),
                          output_names=[f"output_{k}" for k in range(len(outputs))], **options)
    model = onnx.load(str(folder / "model.onnx"))
    taken = [value.name for value in model.graph.input]
    stored = {"input": [(name, inputs[name]) for name in taken], "output": zip([value.name for value in model.graph.output], outputs)}
    for side, tensors in stored.items():
        for k, (name, value) in enumerate(tensors):
            data = onnx.numpy_helper.from_array(np.ascontiguousarray(value.numpy()), name).SerializeToString()
            (folder / "test_data_set_0" / f"{side}_{k}.pb").write_bytes(data)


def export_all(out, kinds):
    """A process per network and exporter: some take all memory, some never end."""
    left = collections.OrderedDict()
    for k, kind in enumerate(kinds):
        print(f"[{k + 1}/{len(kinds)}] {kind}", flush=True)
        for exporter in (("script", "dynamo") if k % 4 < 3 else ("dynamo", "script")):
            command = [sys.executable, __file__, "--one", str(out), kind, exporter]
            try:
                run = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
                reason = (run.stderr.strip().splitlines() or [f"exit code {run.returncode}"])[-1] if run.returncode else ""
            except subprocess.TimeoutExpired:
                reason = f"more than {SECONDS} s"
            if not reason:
                left.pop(kind, None)
                break
            left[kind] = reason
            shutil.rmtree(folder_of(out, kind, exporter), ignore_errors=True)
    for kind, reason in left.items():
        print(f"left out: {kind}: {reason[:150]}")
    print(f"{len(kinds) - len(left)} of {len(kinds)} architectures exported")


def main():
    warnings.filterwarnings("ignore")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    if sys.argv[1:2] == ["--one"]:
        out, kind, exporter = sys.argv[2:]
        try:
            export(pathlib.Path(out), kind, exporter)
        except Left as reason:
            sys.exit(str(reason))
        return
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    from transformers import CONFIG_MAPPING, MODEL_MAPPING
    kinds = sys.argv[2:] or [kind for kind, configuration in CONFIG_MAPPING.items() if configuration in MODEL_MAPPING]
    export_all(pathlib.Path(sys.argv[1]), kinds)


if __name__ == "__main__":
    main()
