"""Recurrences without attention: state spaces, receptances, retentions, linear attention."""

import torch
from torch import nn
from torch.nn import functional as F

from networks import network
from networks.blocks import tokens


class Mamba(nn.Module):
    """A selective scan, a step after the other (the exporter unrolls it), or as sums of logarithms (`parallel`)."""

    def __init__(self, width=256, inner=512, state=16, rank=16, parallel=False):
        super().__init__()
        self.state, self.rank, self.parallel = state, rank, parallel
        self.embed, self.norm, self.both = nn.Embedding(2000, width), nn.LayerNorm(width), nn.Linear(width, 2 * inner, bias=False)
        self.conv, self.select, self.step = nn.Conv1d(inner, inner, 4, padding=3, groups=inner), nn.Linear(inner, rank + 2 * state, bias=False), nn.Linear(rank, inner)
        self.decay, self.through, self.out = nn.Parameter(torch.log(torch.arange(1, state + 1).float()).repeat(inner, 1)), nn.Parameter(torch.ones(inner)), nn.Linear(inner, width, bias=False)

    def forward(self, words):
        x = self.embed(words)
        length = words.shape[1]
        u, gate = self.both(self.norm(x)).chunk(2, -1)
        u = F.silu(self.conv(u.transpose(1, 2))[..., :length]).transpose(1, 2)
        step, b, c = self.select(u).split((self.rank, self.state, self.state), -1)
        step = F.softplus(self.step(step) - 3)
        change = step[..., None] * -torch.exp(self.decay)
        added = (step * u)[..., None] * b[:, :, None]
        if self.parallel:
            total = change.cumsum(1).clamp(min=-20)
            h = total.exp() * (added * (-total).exp()).cumsum(1)
            y = torch.einsum("btdn,btn->btd", h, c)
        else:
            h, rows, kept = torch.zeros_like(added[:, 0]), [], change.exp()
            for t in range(length):
                h = kept[:, t] * h + added[:, t]
                rows.append(torch.matmul(h, c[:, t, :, None])[..., 0])
            y = torch.stack(rows, 1)
        return x + self.out((y + u * self.through) * F.silu(gate))


@network("mamba_steps_ts", "script", 17)
def mamba_steps():
    return Mamba(), {"words": tokens(1, 16)}


@network("mamba_cumsum_dyn", "dynamo", 18, {"words": {0: "batch", 1: "length"}})
def mamba_cumsum():
    return Mamba(inner=256, parallel=True), {"words": tokens(1, 24)}, {"words": tokens(2, 33)}


class Rwkv(nn.Module):
    """RWKV 4: words mixed with the one before, weighted averages that decay, kept stable by their maximum."""

    def __init__(self, width=384):
        super().__init__()
        self.embed, self.norm1, self.norm2 = nn.Embedding(2000, width), nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixes = nn.Parameter(torch.rand(5, width))
        self.k, self.v, self.r, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.up, self.down, self.gate = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False), nn.Linear(width, width, bias=False)
        self.decay, self.first = nn.Parameter(torch.randn(width)), nn.Parameter(torch.randn(width))

    def forward(self, words):
        x = self.embed(words)
        y = self.norm1(x)
        before = F.pad(y, (0, 0, 1, -1))
        mixed = lambda index, y, before: y * self.mixes[index] + before * (1 - self.mixes[index])
        k, v, r = self.k(mixed(0, y, before)), self.v(mixed(1, y, before)), torch.sigmoid(self.r(mixed(2, y, before)))
        a = b = torch.zeros_like(k[:, 0])
        largest, rows, decay = torch.full_like(a, -1e30), [], -torch.exp(self.decay)
        for t in range(words.shape[1]):
            top = torch.maximum(largest, self.first + k[:, t])
            e1, e2 = torch.exp(largest - top), torch.exp(self.first + k[:, t] - top)
            rows.append((e1 * a + e2 * v[:, t]) / (e1 * b + e2))
            top = torch.maximum(largest + decay, k[:, t])
            e1, e2 = torch.exp(largest + decay - top), torch.exp(k[:, t] - top)
            a, b, largest = e1 * a + e2 * v[:, t], e1 * b + e2, top
        x = x + self.o(r * torch.stack(rows, 1))
        y = self.norm2(x)
        before = F.pad(y, (0, 0, 1, -1))
        return x + torch.sigmoid(self.gate(mixed(3, y, before))) * self.down(F.relu(self.up(mixed(4, y, before))).square())


@network("rwkv_ts", "script", 18)
def rwkv():
    return Rwkv(), {"words": tokens(1, 12)}


class Retention(nn.Module):
    """RetNet in parallel form: decays as a matrix of powers, GroupNorm over heads."""

    def __init__(self, width=384, heads=6):
        super().__init__()
        self.embed, self.heads, self.norm = nn.Embedding(2000, width), heads, nn.LayerNorm(width)
        self.qkvg, self.group, self.out = nn.Linear(width, 4 * width), nn.GroupNorm(heads, width), nn.Linear(width, width)
        self.register_buffer("log_decay", torch.log(1 - 2.0 ** (-5 - torch.arange(heads).float())))

    def forward(self, words):
        b, t = words.shape
        x = self.embed(words)
        q, k, v, g = self.qkvg(self.norm(x)).chunk(4, -1)
        q, k, v = (y.view(b, t, self.heads, -1).permute(0, 2, 1, 3) for y in (q, k, v))
        places = torch.arange(t)
        distance = (places[:, None] - places).to(x.dtype)
        decay = torch.exp(self.log_decay[:, None, None] * distance.clamp(min=0)) * (distance >= 0)
        mixed = (q @ k.transpose(-1, -2) * k.shape[-1] ** -0.5 * decay) @ v
        mixed = self.group(mixed.transpose(1, 2).reshape(b * t, -1)).view(b, t, -1)
        return x + self.out(F.silu(g) * mixed)


@network("retention_dyn", "dynamo", 21, {"words": {0: "batch", 1: "length"}})
def retention():
    return Retention(), {"words": tokens(2, 48)}, {"words": tokens(1, 77)}


class LinearAttention(nn.Module):
    """Performer-like: elu + 1, running sums of outer products."""

    def __init__(self, width=256, heads=4):
        super().__init__()
        self.embed, self.heads, self.qkv, self.out, self.norm = nn.Embedding(2000, width), heads, nn.Linear(width, 3 * width), nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, words):
        b, t = words.shape
        x = self.embed(words)
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        state = torch.cumsum(k[..., :, None] * v[..., None, :], 2)
        top = torch.einsum("bhtd,bhtde->bhte", q, state)
        below = (q * k.cumsum(2)).sum(-1, keepdim=True)
        return x + self.out((top / (below + 1e-6)).transpose(1, 2).reshape(b, t, -1))


@network("linear_attention_ts", "script", 17)
def linear_attention():
    return LinearAttention(), {"words": tokens(1, 32)}


class DiagonalState(nn.Module):
    """S4D: a long convolution whose kernel is a sum of decaying exponentials, computed in the network, applied as a Toeplitz product."""

    def __init__(self, width=128, state=16):
        super().__init__()
        self.first, self.rate, self.weight, self.skip = nn.Linear(16, width), nn.Parameter(torch.rand(width, state)), nn.Parameter(torch.randn(width, state)), nn.Parameter(torch.randn(width))
        self.mix, self.norm, self.head = nn.Linear(width, 2 * width), nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, series):
        x = self.first(series)
        t = x.shape[1]
        kernel = (self.weight[..., None] * torch.exp(-F.softplus(self.rate)[..., None] * torch.arange(t, dtype=x.dtype))).sum(1)
        lag = torch.arange(t)[:, None] - torch.arange(t)
        toeplitz = kernel[:, lag.clamp(min=0)] * (lag >= 0)
        y = torch.einsum("dts,bsd->btd", toeplitz, x) + self.skip * x
        x = self.norm(x + F.glu(self.mix(F.gelu(y)), -1))
        return self.head(x.mean(1))


@network("s4d", "dynamo", 18)
def s4d():
    return DiagonalState(), {"series": torch.randn(2, 96, 16)}
