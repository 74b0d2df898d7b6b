"""Matrix memories, attention over channels, focal modulation, capsules, slots, equivariant graphs, sparse queries, gated recurrences, sets, flows."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from networks import network
from networks.blocks import ConvNorm, Mlp


class MLstm(nn.Module):
    """xLSTM's matrix memory, parallel form."""

    def __init__(self, width=128, heads=4, layers=3):
        super().__init__()
        self.heads = heads
        self.up = nn.ModuleList(nn.Linear(width, 4 * width) for _ in range(layers))
        self.conv = nn.ModuleList(nn.Conv1d(2 * width, 2 * width, 4, padding=3, groups=2 * width) for _ in range(layers))
        self.qk = nn.ModuleList(nn.Linear(2 * width, 4 * width) for _ in range(layers))
        self.v = nn.ModuleList(nn.Linear(2 * width, 2 * width) for _ in range(layers))
        self.gates = nn.ModuleList(nn.Linear(6 * width, 2 * heads) for _ in range(layers))
        self.norm = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.group = nn.ModuleList(nn.GroupNorm(heads, 2 * width) for _ in range(layers))
        self.down = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(layers))
        self.head = nn.Linear(width, 100)

    def cell(self, q, k, v, i, f):
        b, h, s, d = q.shape
        lf = F.logsigmoid(f)
        c = torch.cat([torch.zeros_like(lf[..., :1]), lf.cumsum(-1)], -1)
        m = c[..., :, None] - c[..., None, :]
        m = m[..., 1:, 1:]
        mask = torch.ones(s, s, dtype=torch.bool).tril()
        logd = torch.where(mask, m + i[..., None, :], -torch.inf)
        top = logd.max(-1, keepdim=True).values
        D = (logd - top).exp()
        S = (q @ k.transpose(-1, -2)) / math.sqrt(d) * D
        n = torch.maximum(S.sum(-1, keepdim=True).abs(), (-top).exp())
        return (S / (n + 1e-6)) @ v

    def forward(self, x):
        for j in range(len(self.up)):
            y = self.norm[j](x)
            u, z = self.up[j](y).chunk(2, -1)
            c = F.silu(self.conv[j](u.transpose(1, 2))[..., :u.shape[1]].transpose(1, 2))
            q, k = self.qk[j](c).chunk(2, -1)
            v = self.v[j](u)
            g = self.gates[j](torch.cat([q, k, v], -1)).transpose(1, 2)
            i, f = g.chunk(2, 1)
            q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
            h = self.cell(q, k, v, i, f).transpose(1, 2).flatten(2)
            h = self.group[j](h.transpose(1, 2)).transpose(1, 2)
            x = x + self.down[j](h * F.silu(z))
        return self.head(x)


@network("mlstm_dyn", "dynamo", 18, {"x": {1: "time"}})
def mlstm():
    inputs = lambda n: {"x": torch.randn(1, n, 128)}
    return MLstm(), inputs(96), inputs(57)


class Xcit(nn.Module):
    """Cross-covariance attention, local patch interaction, layer scale."""

    def __init__(self, width=192, heads=4, layers=4):
        super().__init__()
        self.heads = heads
        self.stem = nn.Sequential(ConvNorm(3, width // 4, 3, 2), nn.GELU(), ConvNorm(width // 4, width // 2, 3, 2), nn.GELU(), ConvNorm(width // 2, width, 3, 2))
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.temp = nn.ParameterList(nn.Parameter(torch.ones(heads, 1, 1)) for _ in range(layers))
        self.proj = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.local = nn.ModuleList(nn.Sequential(nn.Conv2d(width, width, 3, 1, 1, groups=width), nn.GELU(), nn.BatchNorm2d(width), nn.Conv2d(width, width, 3, 1, 1, groups=width)) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3 * layers))
        self.mlp = nn.ModuleList(Mlp(width, 4 * width, width) for _ in range(layers))
        self.scale = nn.ParameterList(nn.Parameter(torch.ones(width)) for _ in range(3 * layers))
        self.head = nn.Linear(width, 50)

    def forward(self, image):
        x = self.stem(image)
        b, c, h, w = x.shape
        x = x.flatten(2).transpose(1, 2)
        for j in range(len(self.qkv)):
            q, k, v = self.qkv[j](self.norms[3 * j](x)).reshape(b, h * w, 3, self.heads, -1).permute(2, 0, 3, 4, 1)
            q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
            a = (q @ k.transpose(-2, -1) * self.temp[j]).softmax(-1)
            x = x + self.scale[3 * j] * self.proj[j]((a @ v).permute(0, 3, 1, 2).flatten(2))
            y = self.norms[3 * j + 1](x).transpose(1, 2).reshape(b, c, h, w)
            x = x + self.scale[3 * j + 1] * self.local[j](y).flatten(2).transpose(1, 2)
            x = x + self.scale[3 * j + 2] * self.mlp[j](self.norms[3 * j + 2](x))
        return self.head(x.mean(1))


@network("xcit_ts_dyn", "script", 17, {"image": {2: "h", 3: "w"}})
@network("xcit_dyn", "dynamo", 18, {"image": {2: "h", 3: "w"}})
def xcit():
    inputs = lambda h, w: {"image": torch.randn(1, 3, h, w)}
    return Xcit(), inputs(160, 160), inputs(128, 192)


class Focal(nn.Module):
    """FocalNet's focal modulation."""

    def __init__(self, width=96, levels=3, layers=4):
        super().__init__()
        self.levels = levels
        self.stem = nn.Conv2d(3, width, 4, 4)
        self.f = nn.ModuleList(nn.Conv2d(width, 2 * width + levels + 1, 1) for _ in range(layers))
        self.ctx = nn.ModuleList(nn.ModuleList(nn.Sequential(nn.Conv2d(width, width, 3 + 2 * k, 1, 1 + k, groups=width, bias=False), nn.GELU()) for k in range(levels)) for _ in range(layers))
        self.h = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(layers))
        self.proj = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(layers))
        self.norms = nn.ModuleList(nn.GroupNorm(1, width) for _ in range(2 * layers))
        self.mlp = nn.ModuleList(nn.Sequential(nn.Conv2d(width, 4 * width, 1), nn.GELU(), nn.Conv2d(4 * width, width, 1)) for _ in range(layers))
        self.head = nn.Linear(width, 50)

    def forward(self, image):
        x = self.stem(image)
        c = x.shape[1]
        for j in range(len(self.f)):
            q, ctx, gates = torch.split(self.f[j](self.norms[2 * j](x)), (c, c, self.levels + 1), 1)
            total = 0
            for l in range(self.levels):
                ctx = self.ctx[j][l](ctx)
                total = total + ctx * gates[:, l:l + 1]
            total = total + F.gelu(ctx.mean(2, keepdim=True).mean(3, keepdim=True)) * gates[:, self.levels:]
            x = x + self.proj[j](q * self.h[j](total))
            x = x + self.mlp[j](self.norms[2 * j + 1](x))
        return self.head(x.mean((2, 3)))


@network("focal_ts_dyn", "script", 17, {"image": {0: "batch"}})
@network("focal_dyn", "dynamo", 18, {"image": {0: "batch"}})
def focal():
    inputs = lambda n: {"image": torch.randn(n, 3, 112, 112)}
    return Focal(), inputs(1), inputs(3)


class Capsules(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.primary = nn.Conv2d(1, 128, 9), nn.Conv2d(128, 128, 9, 2)
        self.w = nn.Parameter(0.1 * torch.randn(1, 10, 16 * 36, 16, 8))
        self.decode = nn.Sequential(nn.Linear(160, 256), nn.ReLU(), nn.Linear(256, 784), nn.Sigmoid())

    def squash(self, x):
        n = (x * x).sum(-1, keepdim=True)
        return n / (1 + n) * x / (n.sqrt() + 1e-8)

    def forward(self, image):
        x = F.relu(self.conv(image))
        u = self.squash(self.primary(x).reshape(image.shape[0], 16, 8, 36).transpose(2, 3).reshape(image.shape[0], 576, 8))
        hat = (self.w @ u[:, None, :, :, None]).squeeze(-1)
        b = torch.zeros(image.shape[0], 10, 576, 1)
        for r in range(3):
            c = b.softmax(1)
            v = self.squash((c * hat).sum(2, keepdim=True))
            if r < 2:
                b = b + (hat * v).sum(-1, keepdim=True)
        v = v.squeeze(2)
        length = v.norm(dim=-1)
        mask = F.one_hot(length.argmax(1), 10).to(v.dtype)
        return length, self.decode((v * mask[..., None]).flatten(1))


@network("capsules_ts_dyn", "script", 17, {"image": {0: "batch"}})
def capsules():
    inputs = lambda n: {"image": torch.rand(n, 1, 28, 28)}
    return Capsules(), inputs(1), inputs(4)


class Slots(nn.Module):
    def __init__(self, slots=6, width=64):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv2d(3, width, 5, 1, 2), nn.ReLU(), nn.Conv2d(width, width, 5, 2, 2), nn.ReLU(), nn.Conv2d(width, width, 5, 2, 2), nn.ReLU())
        self.pos, self.mu = nn.Linear(4, width), nn.Parameter(torch.randn(1, slots, width))
        self.k, self.v, self.q = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.gru, self.mlp = nn.GRUCell(width, width), Mlp(width, 2 * width, width)
        self.n1, self.n2, self.n3 = nn.LayerNorm(width), nn.LayerNorm(width), nn.LayerNorm(width)
        self.dec = nn.Sequential(nn.ConvTranspose2d(width, width, 5, 2, 2, 1), nn.ReLU(), nn.ConvTranspose2d(width, width, 5, 2, 2, 1), nn.ReLU(), nn.Conv2d(width, 4, 3, 1, 1))
        self.dpos = nn.Linear(4, width)

    def grid(self, h, w):
        y, x = torch.meshgrid(torch.linspace(0, 1, h), torch.linspace(0, 1, w), indexing="ij")
        return torch.stack([y, x, 1 - y, 1 - x], -1)[None]

    def forward(self, image):
        b = image.shape[0]
        f = self.enc(image).permute(0, 2, 3, 1)
        f = self.n1((f + self.pos(self.grid(16, 16))).flatten(1, 2))
        k, v = self.k(f), self.v(f)
        s = self.mu.expand(b, -1, -1)
        for _ in range(3):
            a = (k @ self.q(self.n2(s)).transpose(1, 2) / 8).softmax(-1) + 1e-8
            a = a / a.sum(1, keepdim=True)
            u = a.transpose(1, 2) @ v
            s = self.gru(u.flatten(0, 1), s.flatten(0, 1)).reshape(b, -1, 64)
            s = s + self.mlp(self.n3(s))
        d = s.flatten(0, 1)[:, None, None].expand(-1, 8, 8, -1) + self.dpos(self.grid(8, 8))
        o = self.dec(d.permute(0, 3, 1, 2)).reshape(b, -1, 4, 32, 32)
        w = o[:, :, 3:].softmax(1)
        return (w * o[:, :, :3]).sum(1), w


@network("slots_ts_dyn", "script", 17, {"image": {0: "batch"}})
def slots():
    inputs = lambda n: {"image": torch.rand(n, 3, 64, 64)}
    return Slots(), inputs(1), inputs(2)


class Egnn(nn.Module):
    def __init__(self, width=64, layers=3):
        super().__init__()
        self.embed = nn.Embedding(20, width)
        self.edge = nn.ModuleList(nn.Sequential(nn.Linear(2 * width + 1, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU()) for _ in range(layers))
        self.att = nn.ModuleList(nn.Linear(width, 1) for _ in range(layers))
        self.move = nn.ModuleList(nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1), nn.Tanh()) for _ in range(layers))
        self.node = nn.ModuleList(nn.Sequential(nn.Linear(2 * width, width), nn.SiLU(), nn.Linear(width, width)) for _ in range(layers))
        self.out = nn.Linear(width, 1)

    def forward(self, atoms, x, edges):
        h = self.embed(atoms)
        s, d = edges[0], edges[1]
        for j in range(len(self.edge)):
            diff = x[s] - x[d]
            r = (diff * diff).sum(-1, keepdim=True)
            m = self.edge[j](torch.cat([h[s], h[d], r], -1))
            m = m * self.att[j](m).sigmoid()
            step = diff / (r.sqrt() + 1) * self.move[j](m)
            x = x + torch.zeros_like(x).index_add(0, d, step) / 8
            agg = torch.zeros_like(h).index_add(0, d, m)
            h = h + self.node[j](torch.cat([h, agg], -1))
        return self.out(h).sum(0), x


@network("egnn_dyn", "dynamo", 18, {"atoms": {0: "n"}, "x": {0: "n"}, "edges": {1: "e"}})
def egnn():
    inputs = lambda n, e: {"atoms": torch.randint(0, 20, (n,)), "x": torch.randn(n, 3), "edges": torch.randint(0, n, (2, e))}
    return Egnn(), inputs(60, 500), inputs(31, 200)


class Informer(nn.Module):
    """ProbSparse attention: the queries with the most uneven scores."""

    def __init__(self, width=64, heads=4, layers=2, top=20):
        super().__init__()
        self.heads, self.top = heads, top
        self.value = nn.Conv1d(7, width, 3, padding=1, padding_mode="circular", bias=False)
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.o = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.n1, self.n2 = (nn.ModuleList(nn.LayerNorm(width) for _ in range(layers)) for _ in range(2))
        self.ff = nn.ModuleList(Mlp(width, 4 * width, width) for _ in range(layers))
        self.distil = nn.ModuleList(nn.Sequential(nn.Conv1d(width, width, 3, padding=1, padding_mode="circular"), nn.BatchNorm1d(width), nn.ELU(), nn.MaxPool1d(3, 2, 1)) for _ in range(layers - 1))
        self.register_buffer("pick", torch.randint(0, 48, (24,)))
        self.head = nn.Linear(width, 7)

    def attend(self, q, k, v):
        b, h, l, d = q.shape
        sample = q @ k[:, :, self.pick].transpose(-1, -2)
        m = sample.max(-1).values - sample.mean(-1)
        index = m.topk(self.top, sorted=False).indices
        qr = torch.gather(q, 2, index[..., None].expand(-1, -1, -1, d))
        a = (qr @ k.transpose(-1, -2) / math.sqrt(d)).softmax(-1) @ v
        ctx = v.mean(2, keepdim=True).expand(b, h, l, d)
        return ctx.scatter(2, index[..., None].expand(-1, -1, -1, d), a)

    def forward(self, series):
        x = self.value(series.transpose(1, 2)).transpose(1, 2)
        for j in range(len(self.qkv)):
            q, k, v = self.qkv[j](x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            x = self.n1[j](x + self.o[j](self.attend(q, k, v).transpose(1, 2).flatten(2)))
            x = self.n2[j](x + self.ff[j](x))
            if j < len(self.distil):
                x = self.distil[j](x.transpose(1, 2)).transpose(1, 2)
        return self.head(x)


@network("informer_dyn", "dynamo", 18, {"series": {0: "batch"}})
def informer():
    inputs = lambda n: {"series": torch.randn(n, 96, 7)}
    return Informer(), inputs(2), inputs(5)


class Griffin(nn.Module):
    """RG-LRU by a doubling scan."""

    def __init__(self, width=128, layers=3):
        super().__init__()
        self.lin = nn.ModuleList(nn.Linear(width, 2 * width) for _ in range(layers))
        self.conv = nn.ModuleList(nn.Conv1d(width, width, 4, groups=width) for _ in range(layers))
        self.gx, self.ga = (nn.ModuleList(nn.Linear(width, width) for _ in range(layers)) for _ in range(2))
        self.lam = nn.ParameterList(nn.Parameter(torch.randn(width)) for _ in range(layers))
        self.out = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.norm = nn.ParameterList(nn.Parameter(torch.ones(width)) for _ in range(2 * layers))
        self.mlp = nn.ModuleList(nn.Linear(width, 6 * width) for _ in range(layers))
        self.down = nn.ModuleList(nn.Linear(3 * width, width) for _ in range(layers))
        self.head = nn.Linear(width, 64)

    def rms(self, x, w):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * (1 + w)

    def scan(self, a, b):
        t = 1
        while t < 64:
            a2, b2 = F.pad(a[:, :-t], (0, 0, t, 0), value=1.0), F.pad(b[:, :-t], (0, 0, t, 0))
            b = a * b2 + b
            a = a * a2
            t *= 2
        return b

    def forward(self, x):
        for j in range(len(self.lin)):
            y = self.rms(x, self.norm[2 * j])
            u, g = self.lin[j](y).chunk(2, -1)
            u = self.conv[j](F.pad(u.transpose(1, 2), (3, 0))).transpose(1, 2)
            i, r = self.gx[j](u).sigmoid(), self.ga[j](u).sigmoid()
            la = -8.0 * r * F.softplus(self.lam[j])
            a = la.exp()
            h = self.scan(a, torch.sqrt(-torch.expm1(2 * la) + 1e-6) * (i * u))
            x = x + self.out[j](h * F.gelu(g, approximate="tanh"))
            p, q = self.mlp[j](self.rms(x, self.norm[2 * j + 1])).chunk(2, -1)
            x = x + self.down[j](F.gelu(p, approximate="tanh") * q)
        return 30 * torch.tanh(self.head(x) / 30)


@network("griffin_dyn", "dynamo", 18, {"x": {0: "batch"}})
def griffin():
    inputs = lambda n: {"x": torch.randn(n, 64, 128)}
    return Griffin(), inputs(1), inputs(3)


class SetTransformer(nn.Module):
    def __init__(self, width=128, heads=4, m=16):
        super().__init__()
        self.inp = nn.Linear(3, width)
        self.ind = nn.ParameterList(nn.Parameter(torch.randn(1, m, width)) for _ in range(2))
        self.att = nn.ModuleList(nn.MultiheadAttention(width, heads, batch_first=True) for _ in range(6))
        self.ff = nn.ModuleList(Mlp(width, 2 * width, width) for _ in range(6))
        self.norm = nn.ModuleList(nn.LayerNorm(width) for _ in range(12))
        self.seed, self.head = nn.Parameter(torch.randn(1, 4, width)), nn.Linear(width, 10)

    def mab(self, j, x, y, mask=None):
        h = self.norm[2 * j](x + self.att[j](x, y, y, key_padding_mask=mask, need_weights=False)[0])
        return self.norm[2 * j + 1](h + self.ff[j](h))

    def forward(self, points, padding):
        x = self.inp(points)
        for l in range(2):
            i = self.mab(2 * l, self.ind[l].expand(x.shape[0], -1, -1), x, padding)
            x = self.mab(2 * l + 1, x, i)
        s = self.mab(4, self.seed.expand(x.shape[0], -1, -1), x, padding)
        return self.head(self.mab(5, s, s))


@network("set_transformer_dyn", "dynamo", 18, {"points": {0: "batch", 1: "n"}, "padding": {0: "batch", 1: "n"}})
def set_transformer():
    inputs = lambda b, n: {"points": torch.randn(b, n, 3), "padding": torch.arange(n)[None].expand(b, -1) >= torch.randint(n // 2, n, (b, 1))}
    return SetTransformer(), inputs(2, 200), inputs(3, 77)


class Glow1d(nn.Module):
    """WaveGlow/VITS: residual coupling, WN with conditioning, reversed flow."""

    def __init__(self, ch=80, hid=96, layers=4, flows=3):
        super().__init__()
        self.pre = nn.ModuleList(nn.Conv1d(ch // 2, hid, 1) for _ in range(flows))
        self.cond = nn.ModuleList(nn.Conv1d(64, 2 * hid * layers, 1) for _ in range(flows))
        self.dil = nn.ModuleList(nn.ModuleList(nn.Conv1d(hid, 2 * hid, 5, dilation=2 ** k, padding=2 * 2 ** k) for k in range(layers)) for _ in range(flows))
        self.res = nn.ModuleList(nn.ModuleList(nn.Conv1d(hid, 2 * hid, 1) for k in range(layers)) for _ in range(flows))
        self.post = nn.ModuleList(nn.Conv1d(hid, ch, 1) for _ in range(flows))
        self.inv = nn.ModuleList(nn.Conv1d(ch, ch, 1, bias=False) for _ in range(flows))
        self.hid = hid

    def forward(self, z, mask, speaker):
        for j in reversed(range(len(self.pre))):
            z = self.inv[j](z.flip(1)) * mask
            a, b = z.chunk(2, 1)
            x, skip = self.pre[j](a) * mask, 0
            g = self.cond[j](speaker[..., None])
            for k in range(len(self.dil[j])):
                y = self.dil[j][k](x) + g[:, 2 * self.hid * k:2 * self.hid * (k + 1)]
                y = torch.tanh(y[:, :self.hid]) * torch.sigmoid(y[:, self.hid:])
                r = self.res[j][k](y)
                x = (x + r[:, :self.hid]) * mask
                skip = skip + r[:, self.hid:]
            m, s = self.post[j](skip * mask).chunk(2, 1)
            b = (b - m) * torch.exp(-torch.tanh(s)) * mask
            z = torch.cat([a, b], 1)
        return z


@network("glow_flow_ts_dyn", "script", 17, {"z": {2: "t"}, "mask": {2: "t"}})
@network("glow_flow_dyn", "dynamo", 18, {"z": {2: "t"}, "mask": {2: "t"}})
def glow_flow():
    inputs = lambda t: {"z": torch.randn(1, 80, t), "mask": (torch.arange(t)[None, None] < t - 5).float(), "speaker": torch.randn(1, 64)}
    return Glow1d(), inputs(120), inputs(83)
