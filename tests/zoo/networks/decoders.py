"""Language models, written out by hand."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from networks import network
from networks.blocks import tokens


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x / torch.sqrt(torch.mean(x * x, -1, keepdim=True) + 1e-5) * self.weight


def rotated(x, places, interleaved):
    """Rotary positions: halves, or neighbouring pairs."""
    half = x.shape[-1] // 2
    angles = places[:, None].to(x.dtype) * torch.exp(torch.arange(half, dtype=x.dtype) * (-math.log(10000.0) / half))
    cos, sin = angles.cos(), angles.sin()
    if interleaved:
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)
    low, high = x[..., :half], x[..., half:]
    return torch.cat([low * cos - high * sin, high * cos + low * sin], -1)


class Rope(nn.Module):
    """RMS norms, rotary positions, grouped queries, SwiGLU; reads and extends a cache."""

    def __init__(self, width=512, heads=8, shared=2, hidden=1408, depth=2, vocabulary=2000, interleaved=False):
        super().__init__()
        self.heads, self.shared, self.size, self.interleaved = heads, shared, width // heads, interleaved
        self.embed = nn.Embedding(vocabulary, width)
        linear = lambda a, b: nn.Linear(a, b, bias=False)
        self.layers = nn.ModuleList(nn.ModuleDict({"norm1": RmsNorm(width), "q": linear(width, width), "k": linear(width, shared * self.size), "v": linear(width, shared * self.size), "o": linear(width, width),
                                                   "norm2": RmsNorm(width), "gate": linear(width, hidden), "up": linear(width, hidden), "down": linear(hidden, width)}) for _ in range(depth))
        self.norm, self.head = RmsNorm(width), linear(width, vocabulary)

    def forward(self, words, keys, values):
        b, t = words.shape
        before = keys.shape[3]
        places = torch.arange(t) + before
        mask = torch.full((t, before + t), float("-inf")).triu(before + 1)
        x, new_keys, new_values = self.embed(words), [], []
        for index, layer in enumerate(self.layers):
            y = layer["norm1"](x)
            split = lambda z, n: z.view(b, t, n, self.size).transpose(1, 2)
            q, k, v = rotated(split(layer["q"](y), self.heads), places, self.interleaved), rotated(split(layer["k"](y), self.shared), places, self.interleaved), split(layer["v"](y), self.shared)
            k, v = torch.cat([keys[index], k], 2), torch.cat([values[index], v], 2)
            new_keys.append(k)
            new_values.append(v)
            k, v = (z[:, :, None].expand(-1, -1, self.heads // self.shared, -1, -1).reshape(b, self.heads, -1, self.size) for z in (k, v))
            scores = q @ k.transpose(2, 3) / math.sqrt(self.size) + mask.to(x.dtype)
            x = x + layer["o"]((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, -1))
            y = layer["norm2"](x)
            x = x + layer["down"](F.silu(layer["gate"](y)) * layer["up"](y))
        return self.head(self.norm(x)), torch.stack(new_keys), torch.stack(new_values)


def rope_inputs(batch, length, before, heads=2, size=64):
    return {"words": tokens(batch, length), "keys": torch.randn(2, batch, heads, before, size), "values": torch.randn(2, batch, heads, before, size)}


CACHE = {1: "batch", 3: "before"}


@network("rope_prefill", "dynamo", 18)
def rope_prefill():
    return Rope(), rope_inputs(1, 48, 16)


@network("rope_pairs_dyn", "dynamo", 20, {"words": {0: "batch", 1: "length"}, "keys": CACHE, "values": CACHE})
def rope_pairs():
    return Rope(interleaved=True), rope_inputs(2, 24, 8), rope_inputs(1, 40, 17)


@network("rope_decode_ts_dyn", "script", 17, {"words": {0: "batch"}, "keys": CACHE, "values": CACHE})
def rope_decode():
    return Rope(), rope_inputs(1, 1, 96), rope_inputs(2, 1, 131)


class Alibi(nn.Module):
    """Slopes instead of positions, parallel attention and perceptron, one head of keys for all; the weights of the embedding read out."""

    def __init__(self, width=512, heads=8):
        super().__init__()
        self.embed, self.heads, self.norm = nn.Embedding(2000, width), heads, nn.LayerNorm(width)
        self.layers = nn.ModuleList(nn.ModuleDict({"norm": nn.LayerNorm(width), "qkv": nn.Linear(width, width + 2 * width // heads), "out": nn.Linear(width, width), "up": nn.Linear(width, 4 * width),
                                                   "down": nn.Linear(4 * width, width)}) for _ in range(2))
        self.register_buffer("slopes", 2.0 ** -torch.arange(1, heads + 1))

    def forward(self, words):
        b, t = words.shape
        size = self.embed.embedding_dim // self.heads
        places = torch.arange(t)
        bias = self.slopes[:, None, None] * (places[None] - places[:, None]).to(self.slopes.dtype)
        causal = torch.ones(t, t, dtype=torch.bool).tril()
        x = self.embed(words)
        for layer in self.layers:
            y = layer["norm"](x)
            q, k, v = layer["qkv"](y).split((self.heads * size, size, size), -1)
            q = q.view(b, t, self.heads, size).transpose(1, 2)
            scores = torch.where(causal, q @ k[:, None].transpose(-1, -2) / size ** 0.5 + bias, torch.finfo(x.dtype).min)
            mixed = (scores.softmax(-1) @ v[:, None]).transpose(1, 2).flatten(2)
            x = x + layer["out"](mixed) + layer["down"](F.gelu(layer["up"](y)))
        return self.norm(x) @ self.embed.weight.t() * 0.1


@network("alibi_ts_dyn", "script", 19, {"words": {0: "batch", 1: "length"}})
def alibi():
    return Alibi(), {"words": tokens(1, 48)}, {"words": tokens(2, 33)}


class Experts(nn.Module):
    """A mixture of experts: TopK of a router, every expert over all words, weighted by what the router gave it."""

    def __init__(self, width=384, hidden=768, experts=8, chosen=2):
        super().__init__()
        self.embed, self.router, self.chosen, self.count = nn.Embedding(2000, width), nn.Linear(width, experts, bias=False), chosen, experts
        self.up, self.gate = (nn.Parameter(torch.randn(experts, width, hidden) / width ** 0.5) for _ in range(2))
        self.down, self.norm, self.head = nn.Parameter(torch.randn(experts, hidden, width) / hidden ** 0.5), nn.LayerNorm(width), nn.Linear(width, 2000)

    def forward(self, words):
        x = self.norm(self.embed(words))
        weights, places = self.router(x).softmax(-1).topk(self.chosen, -1)
        weights = weights / weights.sum(-1, keepdim=True)
        share = (F.one_hot(places, self.count).to(x.dtype) * weights[..., None]).sum(-2)
        hidden = F.silu(torch.einsum("btd,edh->bteh", x, self.gate)) * torch.einsum("btd,edh->bteh", x, self.up)
        mixed = torch.einsum("bteh,ehd,bte->btd", hidden, self.down, share)
        return self.head(x + mixed)


@network("experts_einsum", "dynamo", 18)
def experts():
    return Experts(), {"words": tokens(1, 32)}


class LatentAttention(nn.Module):
    """Keys and values from a narrow vector (DeepSeek's), scaled_dot_product_attention as PyTorch exports it."""

    def __init__(self, width=512, heads=8, narrow=128):
        super().__init__()
        self.embed, self.heads, self.norm, self.narrow_norm = nn.Embedding(2000, width), heads, RmsNorm(width), RmsNorm(narrow)
        self.q, self.down, self.up, self.out = nn.Linear(width, width), nn.Linear(width, narrow), nn.Linear(narrow, 2 * width), nn.Linear(width, width)
        self.gate, self.hidden, self.last = nn.Linear(width, 1024), nn.Linear(width, 1024), nn.Linear(1024, width)

    def forward(self, words):
        b, t = words.shape
        x = self.embed(words)
        y = self.norm(x)
        k, v = self.up(self.narrow_norm(self.down(y))).chunk(2, -1)
        q, k, v = (z.unflatten(-1, (self.heads, -1)).transpose(1, 2) for z in (self.q(y), k, v))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.last(F.gelu(self.gate(self.norm(x))) * self.hidden(self.norm(x)))


@network("latent_attention_op23", "dynamo", 23)
def latent_attention():
    return LatentAttention(), {"words": tokens(1, 64)}


@network("latent_attention_op18_dyn", "dynamo", 18, {"words": {0: "batch", 1: "length"}})
def latent_attention_dynamic():
    return LatentAttention(), {"words": tokens(2, 40)}, {"words": tokens(1, 71)}
