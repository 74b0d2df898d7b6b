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


class Mamba2(nn.Module):
    """State space duality in chunks: sums of logarithms over segments, products within a chunk, a product over the chunks' states (all einsums)."""

    def __init__(self, width=384, heads=12, size=64, state=64, chunk=32):
        super().__init__()
        self.heads, self.size, self.state, self.chunk = heads, size, state, chunk
        inner = heads * size
        self.embed, self.norm, self.both = nn.Embedding(2000, width), nn.LayerNorm(width), nn.Linear(width, 2 * inner + 2 * state + heads, bias=False)
        self.conv, self.decay, self.through = nn.Conv1d(inner + 2 * state, inner + 2 * state, 4, padding=3, groups=inner + 2 * state), nn.Parameter(torch.rand(heads)), nn.Parameter(torch.ones(heads))
        self.weight, self.out = nn.Parameter(torch.ones(inner)), nn.Linear(inner, width, bias=False)

    @staticmethod
    def segments(x):
        t = x.shape[-1]
        x = x[..., None].expand(*x.shape, t)
        x = x.masked_fill(~torch.ones(t, t, dtype=torch.bool).tril(-1), 0).cumsum(-2)
        return x.masked_fill(~torch.ones(t, t, dtype=torch.bool).tril(0), float("-inf"))

    def forward(self, words):
        b, t = words.shape
        h, p, n, c = self.heads, self.size, self.state, self.chunk
        first = self.embed(words)
        gate, u, step = self.both(self.norm(first)).split((h * p, h * p + 2 * n, h), -1)
        u = F.silu(self.conv(u.transpose(1, 2))[..., :t].transpose(1, 2))
        x, keys, queries = u.split((h * p, n, n), -1)
        step = F.softplus(step - 2)
        x = x.view(b, t, h, p)
        blocks = lambda y: F.pad(y, (*(0,) * (2 * y.dim() - 4), 0, (-t) % c)).unflatten(1, (-1, c))
        values, fall = blocks(x * step[..., None]), blocks(step * -torch.exp(self.decay)).permute(0, 3, 1, 2)
        keys, queries = blocks(keys), blocks(queries)
        total = fall.cumsum(-1)
        inside = torch.einsum("bcln,bcsn,bhcls,bcshp->bclhp", queries, keys, self.segments(fall).exp(), values)
        states = torch.einsum("bcln,bhcl,bclhp->bchpn", keys, (total[..., -1:] - total).exp(), values)
        states = torch.cat([torch.zeros_like(states[:, :1]), states], 1)
        between = self.segments(F.pad(total[..., -1], (1, 0))).exp()
        states = torch.einsum("bhzc,bchpn->bzhpn", between, states)[:, :-1]
        outside = torch.einsum("bcln,bchpn,bhcl->bclhp", queries, states, total.exp())
        y = (inside + outside).flatten(1, 2)[:, :t] + self.through[:, None] * x
        y = y.flatten(2) * F.silu(gate)
        return first + self.out(y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-5) * self.weight)


@network("mamba2_chunks", "dynamo", 18)
def mamba2():
    return Mamba2(), {"words": tokens(2, 72)}


@network("mamba2_chunks_ts", "script", 17)
def mamba2_ts():
    return Mamba2(), {"words": tokens(1, 80)}


class GatedDelta(nn.Module):
    """A gated delta rule in chunks: a triangular system per chunk solved row by row, states carried from chunk to chunk."""

    def __init__(self, width=256, heads=4, size=64, chunk=16):
        super().__init__()
        self.heads, self.size, self.chunk = heads, size, chunk
        self.embed, self.norm, self.qkv, self.gates = nn.Embedding(2000, width), nn.LayerNorm(width), nn.Linear(width, 3 * heads * size, bias=False), nn.Linear(width, 2 * heads)
        self.conv, self.out = nn.Conv1d(3 * heads * size, 3 * heads * size, 4, padding=3, groups=3 * heads * size, bias=False), nn.Linear(heads * size, width, bias=False)

    def forward(self, words):
        b, t = words.shape
        first = self.embed(words)
        y = self.norm(first)
        z = F.silu(self.conv(self.qkv(y).transpose(1, 2))[..., :t]).transpose(1, 2)
        q, k, v = z.view(b, t, 3, self.heads, self.size).permute(2, 0, 3, 1, 4)
        beta, fall = self.gates(y).view(b, t, 2, self.heads).permute(2, 0, 3, 1)
        beta, fall = torch.sigmoid(beta)[..., None], -F.softplus(fall)
        q, k = F.normalize(q, dim=-1) * self.size ** -0.5, F.normalize(k, dim=-1)
        c = self.chunk
        q, k, v, kb, vb = (x.reshape(b, self.heads, -1, c, self.size) for x in (q, k, v, k * beta, v * beta))
        total = fall.reshape(b, self.heads, -1, c).cumsum(-1)
        lower = (total[..., :, None] - total[..., None, :]).tril().exp().tril()
        system = -(kb @ k.transpose(-1, -2) * lower).masked_fill(torch.ones(c, c, dtype=torch.bool).triu(), 0)
        for row in range(1, c):
            known = system[..., row, :row]
            solved = known + (known[..., None] * system[..., :row, :row]).sum(-2)
            system = torch.cat([system[..., :row, :], F.pad(solved, (0, c - row))[..., None, :], system[..., row + 1:, :]], -2)
        system = system + torch.eye(c)
        value, seen = system @ vb, system @ (kb * total.exp()[..., None])
        state, rows = torch.zeros(b, self.heads, self.size, self.size, dtype=first.dtype), []
        for i in range(t // c):
            new = value[:, :, i] - seen[:, :, i] @ state
            rows.append((q[:, :, i] * total[:, :, i, :, None].exp()) @ state + (q[:, :, i] @ k[:, :, i].transpose(-1, -2) * lower[:, :, i]) @ new)
            last = total[:, :, i, -1, None, None]
            state = state * last.exp() + (k[:, :, i] * (last - total[:, :, i, :, None]).exp()).transpose(-1, -2) @ new
        mixed = torch.stack(rows, 2).flatten(2, 3).transpose(1, 2)
        mixed = mixed * torch.rsqrt(mixed.square().mean(-1, keepdim=True) + 1e-6)
        return first + self.out(mixed.reshape(b, t, -1))


@network("gated_delta_ts", "script", 17)
def gated_delta():
    return GatedDelta(), {"words": tokens(1, 64)}
