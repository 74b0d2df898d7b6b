"""What is chosen, sorted, merged or scanned on the way: hashed and selected attention, tokens merged or left out, halting, long convolutions, latent
worlds, transducers, interests that evolve, crossed features."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from networks import network
from networks.blocks import Attention, Mlp, TransformerLayer, tokens


class DoublingScan(nn.Module):
    """minGRU in its parallel form: a scan by doubling."""

    def __init__(self, width=192, layers=3):
        super().__init__()
        self.embed = nn.Embedding(2000, width)
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(2 * layers))
        self.gates = nn.ModuleList(nn.Linear(width, 2 * width, bias=False) for _ in range(layers))
        self.mlps = nn.ModuleList(Mlp(width, 3 * width, width, act=nn.GELU) for _ in range(layers))
        self.head = nn.Linear(width, 2000, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        for j, gates in enumerate(self.gates):
            hidden, gate = gates(self.norms[2 * j](x)).chunk(2, -1)
            gate = torch.sigmoid(gate)
            kept, state = 1 - gate, gate * torch.where(hidden >= 0, hidden + 0.5, torch.sigmoid(hidden))
            for reach in (1, 2, 4, 8, 16, 32, 64):
                before, factor = F.pad(state, (0, 0, reach, 0))[:, :-reach], F.pad(kept, (0, 0, reach, 0), value=1.0)[:, :-reach]
                state, kept = state + kept * before, kept * factor
            x = x + state
            x = x + self.mlps[j](self.norms[2 * j + 1](x))
        return self.head(x)


@network("doubling_scan_dyn", "dynamo", 18, {"ids": {1: "length"}})
def doubling_scan():
    return DoublingScan(), {"ids": tokens(1, 96)}, {"ids": tokens(1, 61)}


class LongConvolution(nn.Module):
    """Hyena: convolutions as long as the sequence, by Fourier transforms of a filter that a small network of positions makes."""

    def __init__(self, width=128, layers=2, length=256):
        super().__init__()
        self.length = length
        position = torch.linspace(0, 1, length)[:, None]
        self.register_buffer("waves", torch.cat([position, *(f(2 * math.pi * k * position) for k in range(1, 9) for f in (torch.sin, torch.cos))], -1))
        self.register_buffer("decay", torch.exp(-position * torch.linspace(1, 12, width)))
        self.filters = nn.ModuleList(nn.ModuleList([nn.Linear(17, 64), nn.Linear(64, 64), nn.Linear(64, width)]) for _ in range(layers))
        self.entry = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.short = nn.ModuleList(nn.Conv1d(3 * width, 3 * width, 3, padding=2, groups=3 * width) for _ in range(layers))
        self.exit = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.skip = nn.ParameterList(nn.Parameter(torch.randn(width)) for _ in range(layers))

    def forward(self, x):
        for j, norm in enumerate(self.norms):
            first, second, value = self.short[j](self.entry[j](norm(x)).transpose(1, 2))[..., :self.length].chunk(3, 1)
            h = self.waves
            for k, layer in enumerate(self.filters[j]):
                h = layer(h)
                h = torch.sin(10 * h) if k < 2 else h * self.decay
            value = value * second
            spectrum = torch.fft.rfft(value, 2 * self.length) * torch.fft.rfft(h.t(), 2 * self.length)
            y = torch.fft.irfft(spectrum, 2 * self.length)[..., :self.length] / self.length ** 0.5 + value * self.skip[j][:, None]
            x = x + self.exit[j]((y * first).transpose(1, 2))
        return x


@network("long_convolution", "dynamo", 18)
def long_convolution():
    return LongConvolution(), {"x": torch.randn(1, 256, 128)}


class FrequencyModes(nn.Module):
    """FEDformer: a few frequencies of a series, weighted by complex matrices; the trend taken out by moving averages."""

    def __init__(self, width=128, modes=16, heads=4, layers=2):
        super().__init__()
        self.embed = nn.Conv1d(7, width, 3, padding=1, padding_mode="circular")
        self.register_buffer("chosen", torch.randperm(49, generator=torch.Generator().manual_seed(1))[:modes].sort().values)
        self.real = nn.ParameterList(nn.Parameter(torch.randn(heads, modes, width // heads, width // heads) / width) for _ in range(layers))
        self.imag = nn.ParameterList(nn.Parameter(torch.randn(heads, modes, width // heads, width // heads) / width) for _ in range(layers))
        self.mlp = nn.ModuleList(Mlp(width, 4 * width, width, act=nn.GELU) for _ in range(layers))
        self.heads, self.out = heads, nn.Linear(width, 7)

    def detrend(self, x):
        padded = torch.cat([x[:, :1].expand(-1, 12, -1), x, x[:, -1:].expand(-1, 12, -1)], 1)
        return x - F.avg_pool1d(padded.transpose(1, 2), 25, 1).transpose(1, 2)

    def forward(self, series):
        x = self.embed(series.transpose(1, 2)).transpose(1, 2)
        b, n, c = x.shape
        for real, imag, mlp in zip(self.real, self.imag, self.mlp):
            spectrum = torch.view_as_real(torch.fft.rfft(x.transpose(1, 2).reshape(b, self.heads, -1, n)))[..., self.chosen, :]
            a, d = spectrum[..., 0], spectrum[..., 1]
            mix = lambda u, w: torch.einsum("bhim,hmio->bhom", u, w)
            found = torch.stack([mix(a, real) - mix(d, imag), mix(a, imag) + mix(d, real)], -1)
            whole = torch.zeros(b, self.heads, c // self.heads, n // 2 + 1, 2, dtype=x.dtype).index_copy(3, self.chosen, found)
            x = self.detrend(x + torch.fft.irfft(torch.view_as_complex(whole), n).reshape(b, c, n).transpose(1, 2))
            x = self.detrend(x + mlp(x))
        return self.out(x)


@network("frequency_modes", "dynamo", 18)
def frequency_modes():
    return FrequencyModes(), {"series": torch.randn(2, 96, 7)}


class HashedAttention(nn.Module):
    """Reformer: tokens sorted by the bucket their hash says, attention within chunks and to the chunk before."""

    def __init__(self, width=128, heads=4, layers=2, chunk=16, buckets=8):
        super().__init__()
        self.heads, self.chunk = heads, chunk
        self.embed = nn.Embedding(2000, width)
        self.qk, self.v, self.out = (nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(layers)) for _ in range(3))
        self.turns = nn.ParameterList(nn.Parameter(torch.randn(heads, width // heads, buckets // 2)) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers))
        self.mlps = nn.ModuleList(Mlp(width, 4 * width, width) for _ in range(layers))

    def attend(self, j, x):
        b, n, c = x.shape
        qk, v = (part.reshape(b, n, self.heads, -1).transpose(1, 2) for part in (self.qk[j](x), self.v[j](x)))
        turned = torch.einsum("bhnd,hdk->bhnk", qk, self.turns[j])
        bucket = torch.cat([turned, -turned], -1).argmax(-1)
        order = (bucket * n + torch.arange(n)).argsort(-1)
        back = order.argsort(-1)
        sort = lambda t: t.gather(2, order[..., None].expand(-1, -1, -1, t.shape[-1])).reshape(b, self.heads, n // self.chunk, self.chunk, -1)
        look = lambda t: torch.cat([torch.cat([t[:, :, -1:], t[:, :, :-1]], 2), t], 3)
        q, v = sort(qk), sort(v)
        k = look(F.normalize(q, dim=-1))
        at = order.reshape(b, self.heads, -1, self.chunk)
        scores = q @ k.transpose(-1, -2)
        scores = torch.where(at[..., :, None] == look(at[..., None])[..., 0][..., None, :], -1e5, scores)
        y = (scores.softmax(-1) @ look(v)).reshape(b, self.heads, n, -1)
        y = y.gather(2, back[..., None].expand(-1, -1, -1, y.shape[-1]))
        return self.out[j](y.transpose(1, 2).reshape(b, n, c))

    def forward(self, ids):
        x = self.embed(ids)
        for j, mlp in enumerate(self.mlps):
            x = x + self.attend(j, self.norms[2 * j](x))
            x = x + mlp(self.norms[2 * j + 1](x))
        return x


@network("hashed_attention_ts", "script", 17)
def hashed_attention():
    return HashedAttention(), {"ids": tokens(1, 128)}


class SelectedBlocks(nn.Module):
    """Attention to compressed blocks, to the blocks that these select, and to a window, by gates."""

    def __init__(self, width=128, heads=4, block=16, top=3, window=32):
        super().__init__()
        self.heads, self.block, self.top, self.window = heads, block, top, window
        self.embed, self.norm = nn.Embedding(2000, width), nn.RMSNorm(width)
        self.qkv, self.gate, self.out = nn.Linear(width, 3 * width), nn.Linear(width, 3 * heads), nn.Linear(width, width)
        self.squeeze = nn.ModuleList(nn.Linear(block * width // heads, width // heads) for _ in range(2))
        self.head = nn.Linear(width, 500)

    def forward(self, ids):
        x = self.embed(ids)
        b, n, c = x.shape
        y = self.norm(x)
        q, k, v = self.qkv(y).reshape(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        d, blocks = q.shape[-1], n // self.block
        row, column = torch.arange(n)[:, None], torch.arange(n)[None]
        small = [f(t.reshape(b, self.heads, blocks, -1)) for f, t in zip(self.squeeze, (k, v))]
        seen = (torch.arange(blocks)[None] + 1) * self.block <= row + 1
        rough = (q @ small[0].transpose(-1, -2) * d ** -0.5).masked_fill(~seen, -1e9).softmax(-1) * seen
        own = row // self.block == torch.arange(blocks)[None]
        chosen = (rough + own.to(x.dtype)).topk(self.top, -1).indices
        allowed = torch.zeros(b, self.heads, n, blocks, dtype=torch.bool).scatter(-1, chosen, True).repeat_interleave(self.block, -1) & (column <= row)
        scores = q @ k.transpose(-1, -2) * d ** -0.5
        fine = scores.masked_fill(~allowed, -1e9).softmax(-1) @ v
        near = scores.masked_fill(~((column <= row) & (row - column < self.window)), -1e9).softmax(-1) @ v
        gates = torch.sigmoid(self.gate(y)).reshape(b, n, self.heads, 3).transpose(1, 2)
        mixed = gates[..., :1] * (rough @ small[1]) + gates[..., 1:2] * fine + gates[..., 2:] * near
        return self.head(x + self.out(mixed.transpose(1, 2).reshape(b, n, c)))


@network("selected_blocks", "dynamo", 20)
def selected_blocks():
    return SelectedBlocks(), {"ids": tokens(1, 160)}


class DifferentialAttention(nn.Module):
    """The difference of two SoftMaxes, heads normalized each; rotated queries and keys, squared ReLU."""

    def __init__(self, width=192, heads=3, layers=3):
        super().__init__()
        self.heads, self.size = heads, width // heads // 2
        self.embed = nn.Embedding(2000, width)
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width, bias=False) for _ in range(layers))
        self.out = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(layers))
        self.lambdas = nn.ParameterList(nn.Parameter(0.1 * torch.randn(4, self.size)) for _ in range(layers))
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(2 * layers))
        self.each = nn.ModuleList(nn.RMSNorm(2 * self.size) for _ in range(layers))
        self.up = nn.ModuleList(nn.Linear(width, 4 * width, bias=False) for _ in range(layers))
        self.down = nn.ModuleList(nn.Linear(4 * width, width, bias=False) for _ in range(layers))

    def rotate(self, x):
        half = x.shape[-1] // 2
        angle = torch.arange(x.shape[-2], dtype=x.dtype)[:, None] * 10000.0 ** (-torch.arange(half, dtype=x.dtype) / half)
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)

    def forward(self, ids):
        x = self.embed(ids)
        b, n, c = x.shape
        future = torch.full((n, n), -torch.inf, dtype=x.dtype).triu(1)
        for j, norm in enumerate(self.each):
            q, k, v = self.qkv[j](self.norms[2 * j](x)).chunk(3, -1)
            q, k = (self.rotate(t.reshape(b, n, 2 * self.heads, self.size).transpose(1, 2)) for t in (q, k))
            v = v.reshape(b, n, self.heads, -1).transpose(1, 2)
            maps = (q @ k.transpose(-1, -2) * self.size ** -0.5 + future).softmax(-1).reshape(b, self.heads, 2, n, n)
            first, second, third, fourth = self.lambdas[j]
            share = (first * second).sum().exp() - (third * fourth).sum().exp() + 0.8 - 0.6 * math.exp(-0.3 * j)
            y = norm((maps[:, :, 0] - share * maps[:, :, 1]) @ v) * (0.2 + 0.6 * math.exp(-0.3 * j))
            x = x + self.out[j](y.transpose(1, 2).reshape(b, n, c))
            x = x + self.down[j](F.relu(self.up[j](self.norms[2 * j + 1](x))).square())
        return x


@network("differential_dyn", "dynamo", 23, {"ids": {0: "batch", 1: "length"}})
def differential():
    return DifferentialAttention(), {"ids": tokens(2, 48)}, {"ids": tokens(3, 77)}


class MixtureOfDepths(nn.Module):
    """Half of the tokens, by a router's choice and in their order, go through a block; then tokens that resemble each other are merged."""

    def __init__(self, width=192, heads=3):
        super().__init__()
        self.patch, self.place = nn.Conv2d(3, width, 16, 16), nn.Parameter(0.1 * torch.randn(1, 196, width))
        self.router, self.narrow = nn.Linear(width, 1), TransformerLayer(width, heads, 4 * width)
        self.blocks = nn.ModuleList(TransformerLayer(width, heads, 4 * width) for _ in range(3))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 100)

    def merge(self, x, size, count):
        metric = F.normalize(x, dim=-1)
        scores = metric[:, ::2] @ metric[:, 1::2].transpose(-1, -2)
        best, partner = scores.max(-1)
        order = best.argsort(-1, descending=True)[..., None]
        gone, kept = order[:, :count], order[:, count:]
        partner = partner[..., None].gather(1, gone)
        take = lambda t, index: t.gather(1, index.expand(-1, -1, t.shape[-1]))

        def joined(t):
            even, odd = t[:, ::2], t[:, 1::2]
            return torch.cat([take(even, kept), odd.scatter_add(1, partner.expand(-1, -1, t.shape[-1]), take(even, gone))], 1)

        total = joined(size)
        return joined(x * size) / total, total

    def forward(self, image):
        x = self.patch(image).flatten(2).transpose(1, 2) + self.place
        weight = self.router(x)[..., 0]
        chosen = weight.topk(98, -1).indices.sort(-1).values[..., None].expand(-1, -1, x.shape[-1])
        part = self.narrow(x.gather(1, chosen)) * torch.sigmoid(weight)[..., None].gather(1, chosen[..., :1])
        x = x.scatter_add(1, chosen, part)
        size = torch.ones_like(x[..., :1])
        for block in self.blocks:
            x = block(x, bias=size.log().transpose(1, 2)[:, None])
            x, size = self.merge(x, size, 24)
        return self.head(self.norm(x).mean(1))


@network("merged_tokens_ts_dyn", "script", 17, {"image": {0: "batch"}})
def merged_tokens():
    return MixtureOfDepths(), {"image": torch.randn(1, 3, 224, 224)}, {"image": torch.randn(2, 3, 224, 224)}


@network("merged_tokens", "dynamo", 18)
def merged_tokens_exported():
    return MixtureOfDepths(), {"image": torch.randn(1, 3, 224, 224)}


class Halting(nn.Module):
    """A Universal Transformer: one layer again and again, each token until it has halted, for the average of its states."""

    def __init__(self, width=128, heads=4, steps=6):
        super().__init__()
        self.embed, self.layer, self.halt = nn.Embedding(2000, width), TransformerLayer(width, heads, 4 * width), nn.Linear(width, 1)
        self.steps, self.time, self.head = steps, nn.Parameter(0.2 * torch.randn(steps, width)), nn.Linear(width, 20)

    def forward(self, ids):
        state = self.embed(ids)
        halted, rest, updates = (torch.zeros_like(state[..., 0]) for _ in range(3))
        found = torch.zeros_like(state)
        for step in range(self.steps):
            p = torch.sigmoid(self.halt(state))[..., 0]
            running = (halted < 1.0).to(p.dtype)
            ends = (halted + p * running > 0.9).to(p.dtype) * running
            running = (halted + p * running <= 0.9).to(p.dtype) * running
            halted = halted + p * running
            rest = rest + ends * (1 - halted)
            halted = halted + ends * rest
            updates = updates + running + ends
            weight = (p * running + ends * rest)[..., None]
            state = self.layer(state + self.time[step])
            found = state * weight + found * (1 - weight)
        return self.head(found), updates


@network("halting_ts_dyn", "script", 17, {"ids": {1: "length"}})
def halting():
    return Halting(), {"ids": tokens(2, 40)}, {"ids": tokens(2, 23)}


class Transducer(nn.Module):
    """RNN-T: an encoder of sounds that stacks frames, a predictor of words, a joint network over both."""

    def __init__(self, width=256):
        super().__init__()
        self.first, self.second = nn.LSTM(80, width, 2, batch_first=True), nn.LSTM(2 * width, width, 2, batch_first=True)
        self.embed, self.predict = nn.Embedding(500, 128), nn.GRU(128, width, batch_first=True)
        self.left, self.right, self.out = nn.Linear(width, 320), nn.Linear(width, 320, bias=False), nn.Linear(320, 500)

    def forward(self, sound, words):
        x, _ = self.first(sound)
        x, _ = self.second(x.reshape(x.shape[0], x.shape[1] // 2, -1))
        y, state = self.predict(self.embed(words))
        return F.log_softmax(self.out(torch.tanh(self.left(x)[:, :, None] + self.right(y)[:, None])), -1), state


@network("transducer_ts_dyn", "script", 17, {"sound": {0: "batch"}, "words": {0: "batch", 1: "words"}})
def transducer():
    inputs = lambda b, u: {"sound": torch.randn(b, 100, 80), "words": tokens(b, u, 500)}
    return Transducer(), inputs(1, 9), inputs(2, 14)


class LatentWorld(nn.Module):
    """Dreamer: a recurrent state with categorical latents, imagined for some steps; heads for reward (symlog bins) and an actor."""

    def __init__(self, width=256, groups=16, classes=16, actions=6):
        super().__init__()
        self.groups, self.classes = groups, classes
        self.encode = nn.Sequential(*(m for a, b in ((3, 24), (24, 48), (48, 96), (96, 192)) for m in (nn.Conv2d(a, b, 4, 2, 1), nn.GroupNorm(1, b), nn.SiLU())))
        self.entry, self.cell, self.norm = nn.Linear(groups * classes + actions, width), nn.Linear(2 * width, 3 * width, bias=False), nn.LayerNorm(3 * width)
        self.posterior, self.prior = Mlp(width + 192 * 16, 256, groups * classes, act=nn.SiLU), Mlp(width, 256, groups * classes, act=nn.SiLU)
        self.actor, self.reward = Mlp(width + groups * classes, 256, 2 * actions, act=nn.SiLU), Mlp(width + groups * classes, 256, 255, act=nn.SiLU)
        self.register_buffer("bins", torch.linspace(-20, 20, 255))

    def latent(self, logits):
        p = 0.99 * logits.unflatten(-1, (self.groups, self.classes)).softmax(-1) + 0.01 / self.classes
        return p.flatten(-2)

    def step(self, h, z, action):
        x = F.silu(self.entry(torch.cat([z, action], -1)))
        reset, candidate, update = self.norm(self.cell(torch.cat([x, h], -1))).chunk(3, -1)
        update = torch.sigmoid(update - 1)
        return update * torch.tanh(torch.sigmoid(reset) * candidate) + (1 - update) * h

    def forward(self, picture, h, action):
        z = self.latent(self.posterior(torch.cat([h, self.encode(picture).flatten(1)], -1)))
        rewards = []
        for _ in range(5):
            h = self.step(h, z, action)
            z = self.latent(self.prior(h))
            mean, deviation = self.actor(torch.cat([h, z], -1)).chunk(2, -1)
            action = torch.tanh(mean + 0.1 * F.softplus(deviation))
            value = (self.reward(torch.cat([h, z], -1)).softmax(-1) * self.bins).sum(-1)
            rewards.append(torch.sign(value) * torch.expm1(value.abs().clamp(max=3)))
        return torch.stack(rewards, 1), h, z


@network("latent_world_dyn", "dynamo", 18, {"picture": {0: "batch"}, "h": {0: "batch"}, "action": {0: "batch"}})
def latent_world():
    inputs = lambda b: {"picture": torch.rand(b, 3, 64, 64), "h": torch.tanh(torch.randn(b, 256)), "action": torch.randn(b, 6).clamp(-1, 1)}
    return LatentWorld(), inputs(2), inputs(5)


class Interests(nn.Module):
    """DIEN beside xDeepFM: interests that a GRU with attentional updates follows; compressed interactions of crossed features."""

    def __init__(self, width=32, fields=12, steps=20):
        super().__init__()
        self.items, self.fields = nn.Embedding(5000, width), nn.Embedding(fields * 200, 16)
        self.register_buffer("starts", torch.arange(fields) * 200)
        self.gru, self.score = nn.GRU(width, width, batch_first=True), Mlp(4 * width, 64, 1, act=nn.PReLU)
        self.update, self.reset, self.candidate = (nn.Linear(2 * width, width) for _ in range(3))
        self.crosses = nn.ModuleList(nn.Conv1d(fields * size, 24, 1) for size in (fields, 24))
        self.head = Mlp(2 * width + 48 + fields * 16, 128, 64, 1)

    def forward(self, history, lengths, target, features):
        past, goal = self.items(history), self.items(target)
        states, _ = self.gru(past)
        wide = goal[:, None].expand(-1, states.shape[1], -1)
        scores = self.score(torch.cat([states, wide, states - wide, states * wide], -1))[..., 0]
        scores = scores.masked_fill(torch.arange(states.shape[1]) >= lengths[:, None], -1e9).softmax(-1)
        h = torch.zeros_like(goal)
        for t in range(history.shape[1]):
            both = torch.cat([states[:, t], h], -1)
            u = scores[:, t:t + 1] * torch.sigmoid(self.update(both))
            candidate = torch.tanh(self.candidate(torch.cat([states[:, t], torch.sigmoid(self.reset(both)) * h], -1)))
            h = (1 - u) * h + u * candidate
        x = self.fields(features + self.starts)
        crossed, pooled = x, []
        for conv in self.crosses:
            crossed = F.relu(conv(torch.einsum("bhd,bmd->bhmd", crossed, x).flatten(1, 2)))
            pooled.append(crossed.sum(-1))
        return torch.sigmoid(self.head(torch.cat([h, goal, *pooled, x.flatten(1)], -1)))


@network("interests_ts_dyn", "script", 17, {name: {0: "batch"} for name in ("history", "lengths", "target", "features")})
def interests():
    inputs = lambda b: {"history": tokens(b, 20, 5000), "lengths": torch.randint(5, 21, (b,)), "target": tokens(b, 1, 5000)[:, 0], "features": torch.randint(0, 200, (b, 12))}
    return Interests(), inputs(64), inputs(33)


class Radials(nn.Module):
    """Layers of radial and Chebyshev functions instead of activations; a shared table of prototypes by their distances."""

    def __init__(self, width=64):
        super().__init__()
        self.register_buffer("centres", torch.linspace(-2, 2, 8))
        self.norms = nn.ModuleList(nn.LayerNorm(w) for w in (16, width))
        self.rbf = nn.ModuleList(nn.Linear(8 * w, width, bias=False) for w in (16, width))
        self.base = nn.ModuleList(nn.Linear(w, width) for w in (16, width))
        self.chebyshev = nn.Parameter(torch.randn(width, width, 5) / width)
        self.prototypes, self.head = nn.Parameter(torch.randn(40, width)), nn.Linear(40, 3)

    def forward(self, x):
        for norm, rbf, base in zip(self.norms, self.rbf, self.base):
            spread = torch.exp(-((norm(x)[..., None] - self.centres) * 1.75).square())
            x = rbf(spread.flatten(-2)) + base(F.silu(x))
        angles = torch.acos(torch.tanh(x).clamp(-0.999, 0.999))[..., None] * torch.arange(5, dtype=x.dtype)
        x = torch.einsum("bid,iod->bo", angles.cos(), self.chebyshev)
        return self.head(torch.log1p(torch.cdist(x, self.prototypes)))


@network("radials_dyn", "dynamo", 18, {"x": {0: "batch"}})
def radials():
    return Radials(), {"x": torch.randn(32, 16)}, {"x": torch.randn(7, 16)}


class InterleavedTokens(nn.Module):
    """Decision Transformer: returns, states and actions in turns, a causal mask with padding on the left."""

    def __init__(self, width=128, heads=4, layers=3):
        super().__init__()
        self.time, self.returns, self.state, self.action = nn.Embedding(200, width), nn.Linear(1, width), nn.Linear(17, width), nn.Linear(6, width)
        self.norm, self.layers = nn.LayerNorm(width), nn.ModuleList(TransformerLayer(width, heads, 4 * width) for _ in range(layers))
        self.memory, self.out = Attention(width, heads, 64), nn.Linear(width, 6)

    def forward(self, returns, states, actions, steps, valid, goal):
        b, n, _ = states.shape
        at = self.time(steps)
        x = torch.stack([self.returns(returns) + at, self.state(states) + at, self.action(actions) + at], 2).reshape(b, 3 * n, -1)
        keys = valid.repeat_interleave(3, 1)
        allowed = torch.ones(3 * n, 3 * n, dtype=torch.bool).tril()[None] & keys[:, None]
        bias = torch.where(allowed, 0.0, torch.finfo(torch.float32).min)[:, None].to(x.dtype)
        x = self.norm(x)
        for layer in self.layers:
            x = layer(x, bias)
        x = x + self.memory(x, goal)
        return torch.tanh(self.out(x.reshape(b, n, 3, -1)[:, :, 1]))


@network("interleaved_dyn", "dynamo", 18, {name: {0: "batch"} for name in ("returns", "states", "actions", "steps", "valid", "goal")})
def interleaved():
    def inputs(b):
        valid = torch.ones(b, 20, dtype=torch.bool)
        valid[0, :6] = False
        return {"returns": torch.randn(b, 20, 1), "states": torch.randn(b, 20, 17), "actions": torch.randn(b, 20, 6), "steps": torch.arange(20)[None].repeat(b, 1),
                "valid": valid, "goal": torch.randn(b, 8, 64)}
    return InterleavedTokens(), inputs(2), inputs(3)
