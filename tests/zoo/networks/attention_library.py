"""Attention in other people's packages: linear, axial, routed, performers, perceivers, conformers, tables and series. Weights are seeded, nothing is downloaded."""

import torch
from torch import nn

import axial_attention
import conformer
import iTransformer
import linear_attention_transformer
import local_attention
import mlp_mixer_pytorch
import perceiver_pytorch
import performer_pytorch
import soft_moe_pytorch
import tab_transformer_pytorch

from . import network
from .libraries import Flat, Leading, floats


def numbers(most, *shape, seed=0):
    return torch.randint(0, most, shape, generator=torch.Generator().manual_seed(seed))


def both_ways(name, dynamo=True, script=True):
    """The same network through both exporters, or the one that knows its operators."""
    def register(make):
        if dynamo:
            network(f"lib_{name}", "dynamo", 20)(make)
        if script:
            network(f"lib_{name}_ts", "script", 17)(make)
        return make
    return register


@both_ways("performer")
def performer():
    return performer_pytorch.PerformerLM(num_tokens=1000, max_seq_len=256, dim=256, depth=2, heads=4, causal=False), {"tokens": numbers(1000, 1, 256)}


@both_ways("performer_causal")
def performer_causal():
    return performer_pytorch.Performer(dim=256, depth=2, heads=4, dim_head=64, causal=False, generalized_attention=True), {"x": floats(1, 128, 256)}


@both_ways("linear_attention_lm")
def linear_attention_lm():
    return Leading(linear_attention_transformer.LinearAttentionTransformerLM(num_tokens=1000, dim=256, heads=4, depth=2, max_seq_len=256, causal=True, blindspot_size=1)), {"tokens": numbers(1000, 1, 256)}


@both_ways("image_linear_attention")
def image_linear_attention():
    return linear_attention_transformer.images.ImageLinearAttention(chan=64, heads=4, key_dim=32), {"x": floats(1, 64, 48, 48)}


@both_ways("axial")
def axial():
    return axial_attention.AxialAttention(dim=128, dim_index=1, heads=4, num_dimensions=2), {"x": floats(1, 128, 48, 48)}


@both_ways("axial_image_transformer")
def axial_image_transformer():
    return axial_attention.AxialImageTransformer(dim=96, depth=2, reversible=False), {"x": floats(1, 96, 32, 32)}


@both_ways("local_transformer", script=False)
def local_transformer():
    return local_attention.LocalTransformer(num_tokens=256, dim=256, depth=2, max_seq_len=512, local_attn_window_size=64, causal=True), {"tokens": numbers(256, 1, 512)}


@both_ways("conformer")
def conformer_encoder():
    return conformer.Conformer(dim=256, depth=2, dim_head=64, heads=4, ff_mult=4, conv_expansion_factor=2, conv_kernel_size=31), {"x": floats(1, 200, 256)}


@both_ways("itransformer")
def itransformer():
    return Flat(iTransformer.iTransformer(num_variates=137, lookback_len=96, dim=256, depth=2, heads=4, dim_head=64, pred_length=(12, 24), use_reversible_instance_norm=True)), {"x": floats(2, 96, 137)}


@both_ways("itransformer_2d", dynamo=False)
def itransformer_2d():
    return Flat(iTransformer.iTransformer2D(num_variates=64, num_time_tokens=16, lookback_len=96, dim=128, depth=2, heads=4, dim_head=32, pred_length=(12, 24), use_reversible_instance_norm=True)), {"x": floats(1, 96, 64)}


@both_ways("itransformer_fft", script=False)
def itransformer_fft():
    return Flat(iTransformer.iTransformerFFT(num_variates=64, lookback_len=96, dim=128, depth=2, heads=4, dim_head=32, pred_length=(12, 24), use_reversible_instance_norm=True)), {"x": floats(1, 96, 64)}


@both_ways("mixer")
def mixer():
    return mlp_mixer_pytorch.MLPMixer(image_size=(224, 128), channels=3, patch_size=16, dim=256, depth=3, num_classes=100), {"image": floats(1, 3, 224, 128)}


@both_ways("permutator")
def permutator():
    return mlp_mixer_pytorch.Permutator(image_size=224, patch_size=14, dim=256, depth=3, num_classes=100, segments=8), {"image": floats(1, 3, 224, 224)}


@both_ways("perceiver", script=False)
def perceiver():
    return perceiver_pytorch.Perceiver(input_channels=3, input_axis=2, num_freq_bands=6, max_freq=10.0, depth=2, num_latents=64, latent_dim=128, cross_heads=1, latent_heads=4,
                                       cross_dim_head=64, latent_dim_head=32, num_classes=100, weight_tie_layers=False, self_per_cross_attn=2), {"image": floats(1, 48, 48, 3)}


@both_ways("perceiver_io")
def perceiver_io():
    return perceiver_pytorch.PerceiverIO(dim=32, queries_dim=32, logits_dim=100, depth=3, num_latents=128, latent_dim=256, cross_heads=1, latent_heads=4, cross_dim_head=64, latent_dim_head=64,
                                         weight_tie_layers=False), {"x": floats(1, 512, 32)}


@both_ways("soft_moe")
def soft_moe():
    return soft_moe_pytorch.SoftMoE(dim=256, seq_len=256, num_experts=4), {"x": floats(1, 256, 256)}


@both_ways("soft_moe_geglu", script=False)
def soft_moe_geglu():
    return soft_moe_pytorch.DynamicSlotsSoftMoE(dim=256, num_experts=4, geglu=True), {"x": floats(1, 192, 256)}


@both_ways("tab_transformer", dynamo=False)
def tab_transformer():
    return tab_transformer_pytorch.TabTransformer(categories=(10, 5, 6, 5, 8), num_continuous=10, dim=32, dim_out=1, depth=3, heads=8, mlp_act=nn.ReLU()), {"categories": numbers(5, 64, 5), "values": floats(64, 10)}


@both_ways("ft_transformer")
def ft_transformer():
    return tab_transformer_pytorch.FTTransformer(categories=(10, 5, 6, 5, 8), num_continuous=10, dim=32, dim_out=1, depth=3, heads=8), {"categories": numbers(5, 64, 5), "values": floats(64, 10)}
