"""Transformers as x-transformers builds them, an option or two a row, and relatives: hierarchies and hashes of attention, gate loops, memories, positions in
polar form; the denoisers of denoising-diffusion-pytorch. Weights are seeded, nothing is downloaded."""

import torch
from torch import nn

import denoising_diffusion_pytorch as denoisers
import gateloop_transformer
import h_transformer_1d
import PoPE_pytorch
import reformer_pytorch
import titans_pytorch
import x_transformers
from denoising_diffusion_pytorch import classifier_free_guidance, simple_diffusion
from titans_pytorch import implicit_mlp_attention, nested_attention

from . import alternating
from .libraries import DYNAMIC_BATCH, Flat, floats

TOKENS, WIDTH = 1000, 256
OPEN_LENGTH = {1: "length"}
ONLY_DYNAMO = ("reformer_axial", "titans_memory", "titans_implicit_mlp", "gateloop_full", "pope")  # beyond the TorchScript exporter
FIXED = ("t5_bias_relu_squared", "data_dependent_alibi")  # neither exporter leaves their length open


def numbers(length, batch=1, seed=0, most=TOKENS):
    return torch.randint(0, most, (batch, length), generator=torch.Generator().manual_seed(seed))


# name, Decoder or Encoder, options of its layers, of the model around them, tokens
LANGUAGE = [
    ("rotary_swiglu_rms", "Decoder", dict(rotary_pos_emb=True, ff_swish=True, ff_glu=True, use_rmsnorm=True, ff_no_bias=True), {}, 256),
    ("alibi", "Decoder", dict(alibi_pos_bias=True, alibi_num_heads=2), dict(use_abs_pos_emb=False), 256),
    ("t5_bias_relu_squared", "Encoder", dict(rel_pos_bias=True, ff_relu_squared=True, use_scalenorm=True), {}, 192),
    ("flash_gqa", "Decoder", dict(attn_flash=True, attn_kv_heads=2, rotary_pos_emb=True), {}, 512),
    ("sandwich", "Decoder", dict(sandwich_norm=True, attn_one_kv_head=True), {}, 256),
    ("talking_heads", "Encoder", dict(attn_pre_talking_heads=True, attn_post_talking_heads=True), dict(num_memory_tokens=8), 128),
    ("sparse_topk", "Decoder", dict(attn_sparse_topk=8, attn_gate_values=True), {}, 128),
    ("macaron_shift", "Decoder", dict(macaron=True, shift_tokens=1), {}, 256),
    ("residual_attention", "Encoder", dict(residual_attn=True, pre_norm=False), {}, 192),
    ("memory_kv", "Encoder", dict(attn_num_mem_kv=16, attn_head_scale=True), {}, 256),
    ("deepnorm", "Decoder", dict(pre_norm=False, scale_residual=True, scale_residual_constant=2.0), {}, 192),
    ("qk_norm", "Decoder", dict(attn_qk_norm=True, attn_qk_norm_dim_scale=True, rotary_xpos=True), {}, 256),
    ("hyper_connections", "Decoder", dict(num_residual_streams=4, rotary_pos_emb=True), {}, 128),
    ("dynamic_bias", "Decoder", dict(dynamic_pos_bias=True, dynamic_pos_bias_log_distance=True), {}, 128),
    ("gated_residual", "Encoder", dict(gate_residual=True), dict(average_pool_embed=True), 192),
    ("softclamp_laser", "Decoder", dict(attn_softclamp_logits=True, attn_laser=True, softclamp_output=True), {}, 192),
    ("value_residual", "Decoder", dict(add_value_residual=True, attn_orthog_projected_values=True), dict(tie_embedding=True), 192),
    ("latent_kv", "Decoder", dict(attn_use_latent_kv=True, attn_dim_latent_kv=96, attn_use_latent_q=True, attn_dim_latent_q=128), {}, 256),
    ("cope", "Decoder", dict(attn_use_cope=True, attn_cope_max_pos=16), {}, 128),
    ("sigmoid_attention", "Encoder", dict(attn_sigmoid=True, use_rmsnorm=True), {}, 192),
    ("data_dependent_alibi", "Decoder", dict(attn_data_dependent_alibi=True, attn_l2_distance=True), {}, 192),
    ("selective", "Decoder", dict(attn_selective=True, unet_skips=True), {}, 192),
    ("polar", "Decoder", dict(polar_pos_emb=True, use_simple_rmsnorm=True), {}, 192),
    ("integrate_layers", "Decoder", dict(integrate_layers=True, attn_head_learned_sink=True), dict(num_cls_tokens=2, use_cls_token=True), 128),
    ("orthogonal_residual", "Decoder", dict(orthog_residual=True, attn_k_rmsnorm=True, attn_value_rmsnorm=True), {}, 128),
    ("softmaxes", "Encoder", dict(attn_use_rel_proj_pos_bias=True, use_dynamic_tanh=True), dict(mixture_of_softmax=True), 128),
]


def register_language(position, name, kind, layers, around, length):
    open_length, open_batch = position % 3 == 2 and name not in FIXED, position % 6 == 3
    dynamic = {"tokens": OPEN_LENGTH} if open_length else {"tokens": DYNAMIC_BATCH} if open_batch else None
    name = f"xt_{name}"

    @alternating(name, position, dynamic)
    def make():
        stack = getattr(x_transformers, kind)(dim=WIDTH, depth=3, heads=4, attn_dim_head=64, verbose=False, **layers)
        module = Flat(x_transformers.TransformerWrapper(num_tokens=TOKENS, max_seq_len=512, attn_layers=stack, **around))
        batch = 2 if open_batch else 1  # an extent of one would not stay open
        others = numbers(length // 2 + 5, seed=1) if open_length else numbers(length, 3, seed=1)
        return (module, {"tokens": numbers(length, batch)}, {"tokens": others}) if dynamic else (module, {"tokens": numbers(length)})


class Translator(nn.Module):
    """Both stacks of an XTransformer with the loss left out."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, source, target):
        return self.inner.decoder.net(target, context=self.inner.encoder(source, return_embeddings=True))


class Polar(nn.Module):
    """Self-attention with positions in polar form."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.norm = heads, nn.LayerNorm(width)
        self.positions = PoPE_pytorch.PoPE(width // heads, heads=heads)
        self.split, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        queries, keys, found = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.split(self.norm(x)).chunk(3, -1))
        found = PoPE_pytorch.flash_attn_with_pope(queries, keys, found, pos_emb=self.positions(x.shape[1]), causal=True)
        return x + self.join(found.transpose(1, 2).flatten(2))


class Whole(nn.Module):
    """Calls with options that are no inputs."""

    def __init__(self, inner, **options):
        super().__init__()
        self.inner, self.options = inner, options

    def forward(self, *inputs):
        return self.inner(*inputs, **self.options)


def stack(kind="Encoder", depth=3, **options):
    return getattr(x_transformers, kind)(dim=WIDTH, depth=depth, heads=4, verbose=False, **options)


def translator(**options):
    both = {f"{side}_{name}": value for side in ("enc", "dec") for name, value in (dict(num_tokens=TOKENS, depth=2, heads=4, max_seq_len=256, verbose=False) | options).items()}
    return Translator(x_transformers.XTransformer(dim=WIDTH, **both))


def opened(module):
    """Gains that start at nothing, at one."""
    for part in module.modules():
        if type(part).__name__ == "Gain":
            nn.init.ones_(part.gain)
    return module


def tokens(length):
    return lambda seed=0: {"tokens": numbers(length, seed=seed)}


def sequence(length, width=WIDTH):
    return lambda seed=0: {"x": floats(1, length, width, seed=seed)}


def noisy(*shape, latest=900):
    return lambda seed=0: {"x": floats(1, *shape, seed=seed), "time": latest * torch.rand(1, generator=torch.Generator().manual_seed(seed))}


# name, what makes it, its inputs; exporters and opsets alternate here as above
RELATIVES = [
    ("xt_translator", lambda: translator(rotary_pos_emb=True), lambda: {"source": numbers(128), "target": numbers(64, seed=2)}),
    ("xt_translator_t5_bias", lambda: translator(rel_pos_bias=True, use_rmsnorm=True), lambda: {"source": numbers(96), "target": numbers(128, seed=2)}),
    ("xt_vit_registers", lambda: x_transformers.ViTransformerWrapper(image_size=224, patch_size=16, num_classes=100, num_register_tokens=4, attn_layers=stack(use_layerscale=True)), lambda: {"image": floats(1, 3, 224, 224)}),
    ("xt_continuous", lambda: x_transformers.ContinuousTransformerWrapper(dim_in=64, dim_out=32, max_seq_len=256, attn_layers=stack(pre_and_post_norm=True)), sequence(256, 64)),
    ("xt_continuous_probabilistic", lambda: x_transformers.ContinuousTransformerWrapper(dim_in=64, dim_out=32, max_seq_len=256, probabilistic=True, attn_layers=stack("Decoder", rotary_pos_emb=True, attn_flash=True)), sequence(192, 64)),
    ("xt_cross_attender", lambda: x_transformers.CrossAttender(dim=WIDTH, depth=2, heads=4, verbose=False), lambda: {"x": floats(1, 64, WIDTH), "context": floats(1, 256, WIDTH, seed=1)}),
    ("xt_neo_mlp", lambda: x_transformers.NeoMLP(dim_in=16, dim_hidden=48, dim_out=8, dim_model=128, depth=3), lambda: {"x": floats(8, 16)}),
    ("titans_memory", lambda: titans_pytorch.MemoryAsContextTransformer(num_tokens=TOKENS, dim=WIDTH, depth=2, segment_len=32, num_persist_mem_tokens=4, num_longterm_mem_tokens=8, heads=4, neural_memory_layers=()), tokens(128)),
    ("titans_nested", lambda: nested_attention.NestedAttention(WIDTH, heads=4), sequence(128)),
    ("titans_implicit_mlp", lambda: implicit_mlp_attention.ImplicitMLPAttention(WIDTH, (64, 128, 64), heads=4), sequence(128)),
    ("reformer_full", lambda: reformer_pytorch.ReformerLM(num_tokens=TOKENS, dim=WIDTH, depth=2, max_seq_len=256, heads=4, bucket_size=32, use_full_attn=True, causal=True), tokens(256)),
    ("reformer_axial", lambda: reformer_pytorch.ReformerLM(num_tokens=TOKENS, dim=WIDTH, depth=2, max_seq_len=256, heads=4, bucket_size=32, use_full_attn=True, ff_glu=True, use_rezero=True, one_value_head=True, axial_position_emb=True, axial_position_shape=(16, 16)), tokens(256)),
    ("htransformer", lambda: h_transformer_1d.HTransformer1D(num_tokens=TOKENS, dim=WIDTH, depth=2, max_seq_len=256, heads=4, block_size=32), tokens(256)),
    ("htransformer_causal", lambda: h_transformer_1d.HTransformer1D(num_tokens=TOKENS, dim=WIDTH, depth=2, max_seq_len=256, heads=4, block_size=32, causal=True, shift_tokens=True), tokens(256)),
    ("gateloop_full", lambda: gateloop_transformer.Transformer(num_tokens=TOKENS, dim=WIDTH, depth=2, heads=4, use_gate_looped_attn=False, rotary_emb=True), tokens(128)),
    ("gateloop_simple", lambda: gateloop_transformer.SimpleGateLoopLayer(WIDTH), sequence(256)),
    ("pope", lambda: nn.Sequential(Polar(WIDTH, 4), Polar(WIDTH, 4)), sequence(192)),
    ("denoise_unet", lambda: denoisers.Unet(dim=32, dim_mults=(1, 2, 4)), noisy(3, 64, 64)),
    ("denoise_unet_flash", lambda: denoisers.Unet(dim=32, dim_mults=(1, 2, 4), flash_attn=True, full_attn=(False, True, True), learned_sinusoidal_cond=True), noisy(3, 48, 64)),
    ("denoise_unet_1d", lambda: denoisers.Unet1D(dim=48, dim_mults=(1, 2, 4), channels=16), noisy(16, 256)),
    ("denoise_karras", lambda: opened(denoisers.KarrasUnet(image_size=64, dim=48, dim_max=128, channels=4, num_downsamples=2, num_blocks_per_stage=2, attn_res=(16,))), noisy(4, 64, 64, latest=1)),
    ("denoise_karras_1d", lambda: opened(denoisers.KarrasUnet1D(seq_len=256, dim=48, dim_max=128, channels=16, num_downsamples=2, num_blocks_per_stage=2, attn_res=(64,))), noisy(16, 256, latest=1)),
    ("denoise_karras_3d", lambda: opened(denoisers.KarrasUnet3D(image_size=32, frames=8, dim=32, dim_max=64, channels=4, num_downsamples=2, num_blocks_per_stage=(1, 1), attn_res=())), noisy(4, 8, 32, 32, latest=1)),
    ("denoise_uvit", lambda: simple_diffusion.UViT(dim=48, dim_mults=(1, 2, 4), vit_depth=2), noisy(3, 64, 64)),
    ("denoise_guided", lambda: Whole(classifier_free_guidance.Unet(dim=32, num_classes=10, dim_mults=(1, 2, 4)), cond_drop_prob=0.0), lambda: noisy(3, 64, 64)() | {"kind": torch.tensor([3])}),
]


def register_relative(position, name, make_module, make_inputs):
    @alternating(name, position, None, name in ONLY_DYNAMO)
    def make():
        return Flat(make_module()), make_inputs()


for place, row in enumerate(LANGUAGE):
    register_language(place, *row)
for place, row in enumerate(RELATIVES):
    register_relative(place, *row)
