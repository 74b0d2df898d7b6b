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


class Bloom(nn.Module):
    """Scores by baddbmm on top of ALiBi made from the mask, heads interleaved in the merged weights, a GELU written with tanh; a cache out."""

    def __init__(self, width=512, heads=8):
        super().__init__()
        self.embed, self.heads, self.first, self.last = nn.Embedding(2000, width), heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.layers = nn.ModuleList(nn.ModuleDict({"norm1": nn.LayerNorm(width), "qkv": nn.Linear(width, 3 * width), "out": nn.Linear(width, width), "norm2": nn.LayerNorm(width),
                                                   "up": nn.Linear(width, 4 * width), "down": nn.Linear(4 * width, width)}) for _ in range(2))
        self.register_buffer("slopes", 2.0 ** -torch.arange(1, heads + 1))

    def forward(self, words, mask):
        b, t = words.shape
        places = (mask.cumsum(-1) - 1) * mask
        alibi = (self.slopes[:, None] * places[:, None].to(self.slopes.dtype)).reshape(b * self.heads, 1, t)
        hidden = torch.ones(t, t, dtype=torch.bool).triu(1)[None, None] | (mask[:, None, None] == 0)
        x, cache = self.first(self.embed(words)), []
        for layer in self.layers:
            y = layer["norm1"](x)
            q, k, v = layer["qkv"](y).view(b, t, self.heads, 3, -1).unbind(3)
            q, v = (z.transpose(1, 2).reshape(b * self.heads, t, -1) for z in (q, v))
            k = k.permute(0, 2, 3, 1).reshape(b * self.heads, -1, t)
            cache += [k, v]
            scores = alibi.baddbmm(q, k, beta=1.0, alpha=q.shape[-1] ** -0.5).view(b, self.heads, t, t)
            weights = scores.masked_fill(hidden, torch.finfo(x.dtype).min).softmax(-1).view(b * self.heads, t, t)
            mixed = torch.bmm(weights, v).view(b, self.heads, t, -1).transpose(1, 2).reshape(b, t, -1)
            x = x + layer["out"](mixed)
            y = layer["up"](layer["norm2"](x))
            x = x + layer["down"](y * 0.5 * (1.0 + torch.tanh(0.79788456 * y * (1 + 0.044715 * y * y))))
        return (self.last(x) @ self.embed.weight.t() * 0.1, *cache)


def bloom_inputs(batch, length):
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[-1, :5] = 0
    return {"words": tokens(batch, length), "mask": mask}


@network("bloom_prefill_ts_dyn", "script", 17, {"words": {0: "batch", 1: "length"}, "mask": {0: "batch", 1: "length"}})
def bloom_ts():
    return Bloom(), bloom_inputs(2, 40), bloom_inputs(1, 67)


@network("bloom_prefill", "dynamo", 18)
def bloom():
    return Bloom(), bloom_inputs(1, 48)


class GptJ(nn.Module):
    """Attention and perceptron side by side; rotary pairs on part of a head, sines looked up by position; a cache in and out."""

    def __init__(self, width=768, heads=12, turned=32, longest=256):
        super().__init__()
        self.embed, self.heads, self.turned, self.last, self.head = nn.Embedding(2000, width), heads, turned, nn.LayerNorm(width), nn.Linear(width, 2000)
        linear = lambda: nn.Linear(width, width, bias=False)
        self.layers = nn.ModuleList(nn.ModuleDict({"norm": nn.LayerNorm(width), "q": linear(), "k": linear(), "v": linear(), "o": linear(), "up": nn.Linear(width, 4 * width),
                                                   "down": nn.Linear(4 * width, width)}) for _ in range(2))
        angles = torch.arange(longest).float()[:, None] * 10000.0 ** (-torch.arange(0, turned, 2) / turned)
        self.register_buffer("waves", torch.cat([angles.sin(), angles.cos()], 1))

    def turn(self, x, sin, cos):
        y, rest = x[..., :self.turned], x[..., self.turned:]
        other = torch.stack((-y[..., 1::2], y[..., ::2]), -1).flatten(-2)
        return torch.cat([y * cos + other * sin, rest], -1)

    def forward(self, words, places, mask, keys, values):
        b, t = words.shape
        sin, cos = (wave[:, :, None].repeat_interleave(2, 3) for wave in self.waves[places].chunk(2, -1))
        off = (1.0 - mask[:, None, None].to(self.waves.dtype)) * torch.finfo(torch.float32).min
        x, new_keys, new_values = self.embed(words), [], []
        for index, layer in enumerate(self.layers):
            y = layer["norm"](x)
            q, k, v = (layer[name](y).view(b, t, self.heads, -1) for name in ("q", "k", "v"))
            q, k, v = self.turn(q, sin, cos).transpose(1, 2), self.turn(k, sin, cos).transpose(1, 2), v.transpose(1, 2)
            k, v = torch.cat([keys[index], k], 2), torch.cat([values[index], v], 2)
            new_keys.append(k)
            new_values.append(v)
            weights = (torch.matmul(q, k.transpose(-1, -2)) / 8.0 + off).softmax(-1)
            mixed = torch.matmul(weights, v).transpose(1, 2).reshape(b, t, -1)
            x = layer["o"](mixed) + layer["down"](F.gelu(layer["up"](y), approximate="tanh")) + x
        return self.head(self.last(x)), torch.stack(new_keys), torch.stack(new_values)


def gptj_inputs(batch, before):
    return {"words": tokens(batch, 1), "places": torch.full((batch, 1), before), "mask": torch.ones(batch, before + 1, dtype=torch.int64),
            "keys": torch.randn(2, batch, 12, before, 64), "values": torch.randn(2, batch, 12, before, 64)}


@network("gptj_decode_dyn", "dynamo", 18, {"words": {0: "batch"}, "places": {0: "batch"}, "mask": {0: "batch", 1: "total"}, "keys": CACHE, "values": CACHE})
def gptj_decode():
    return GptJ(), gptj_inputs(2, 31), gptj_inputs(3, 60)


@network("gptj_decode_ts_dyn", "script", 17, {"words": {0: "batch"}, "places": {0: "batch"}, "mask": {0: "batch", 1: "total"}, "keys": CACHE, "values": CACHE})
def gptj_decode_ts():
    return GptJ(), gptj_inputs(1, 95), gptj_inputs(2, 40)


class SparseExperts(nn.Module):
    """Experts that only see the words sent to them: what the router chose becomes indices, results are added where they came from."""

    def __init__(self, width=384, hidden=512, experts=8, chosen=2):
        super().__init__()
        self.embed, self.router, self.chosen, self.count, self.norm = nn.Embedding(2000, width), nn.Linear(width, experts, bias=False), chosen, experts, RmsNorm(width)
        self.experts = nn.ModuleList(nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in ((width, hidden), (width, hidden), (hidden, width))) for _ in range(experts))

    def forward(self, words):
        b, t = words.shape
        x = self.embed(words).view(b * t, -1)
        y = self.norm(x)
        weights, places = self.router(y).softmax(-1).topk(self.chosen, -1)
        weights = weights / weights.sum(-1, keepdim=True)
        chosen = F.one_hot(places, self.count).permute(2, 1, 0)
        for index, (gate, up, down) in enumerate(self.experts):
            rank, row = torch.where(chosen[index])
            hidden = F.silu(gate(y[row])) * up(y[row])
            x = x.index_add(0, row, down(hidden) * weights[row, rank, None])
        return x.view(b, t, -1)


@network("experts_where_ts_dyn", "script", 17, {"words": {0: "batch", 1: "length"}})
def sparse_experts():
    return SparseExperts(), {"words": tokens(1, 48)}, {"words": tokens(2, 31)}
