"""Of many fields, each for one thing that the other files do not have: see the first lines of the classes."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from networks import network
from networks.blocks import ConvNorm, Mlp, TransformerLayer, image, tokens


class Gated(nn.Module):
    """Gated residual networks, variable selection, an LSTM, interpretable attention with shared values (temporal fusion transformers)."""

    class Unit(nn.Module):
        def __init__(self, inputs, width, outputs=None):
            super().__init__()
            outputs = outputs or width
            self.one, self.two, self.gate, self.norm = nn.Linear(inputs, width), nn.Linear(width, width), nn.Linear(width, 2 * outputs), nn.LayerNorm(outputs)
            self.skip = nn.Linear(inputs, outputs)

        def forward(self, x):
            return self.norm(self.skip(x) + F.glu(self.gate(F.elu(self.two(F.elu(self.one(x))))), -1))

    def __init__(self, variables=8, width=64, heads=4):
        super().__init__()
        self.embed, self.width, self.heads = nn.ModuleList(nn.Linear(1, width) for _ in range(variables)), width, heads
        self.single = nn.ModuleList(self.Unit(width, width) for _ in range(variables))
        self.select, self.lstm, self.mix = self.Unit(variables * width, width, variables), nn.LSTM(width, width, batch_first=True), self.Unit(width, width)
        self.q, self.k, self.v, self.out = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width // heads), nn.Linear(width // heads, width)
        self.last, self.quantiles = self.Unit(width, width), nn.Linear(width, 3)

    def forward(self, series):
        parts = [layer(series[..., k:k + 1]) for k, layer in enumerate(self.embed)]
        weights = self.select(torch.cat(parts, -1)).softmax(-1)
        x = (torch.stack([unit(part) for unit, part in zip(self.single, parts)], -1) * weights[:, :, None]).sum(-1)
        x = self.mix(self.lstm(x)[0] + x)
        b, t, _ = x.shape
        split = lambda y: y.reshape(b, t, self.heads, -1).transpose(1, 2)
        scores = split(self.q(x)) @ split(self.k(x)).transpose(2, 3) / math.sqrt(self.width // self.heads)
        scores = scores.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), -1e9).softmax(-1)
        x = self.last(x + self.out((scores @ self.v(x)[:, None]).mean(1)))
        return self.quantiles(x[:, -24:]), weights


@network("fusion_series_ts_dyn", "script", 17, {"series": {0: "batch"}})
def fusion_series():
    return Gated(), {"series": torch.randn(2, 72, 8)}, {"series": torch.randn(5, 72, 8)}


class Pillars(nn.Module):
    """Points of a lidar in pillars: features of points, a maximum over each pillar, written to a grid by index, convolutions at three scales."""

    def __init__(self):
        super().__init__()
        self.points = nn.Sequential(nn.Linear(9, 64, bias=False), nn.LayerNorm(64), nn.ReLU())
        stage = lambda a, b, n: nn.Sequential(ConvNorm(a, b, 3, 2), *(ConvNorm(b, b, 3) for _ in range(n)))
        self.stages = nn.ModuleList([stage(64, 64, 1), stage(64, 128, 1), stage(128, 256, 1)])
        self.ups = nn.ModuleList(nn.Sequential(nn.ConvTranspose2d(c, 64, s, s), nn.BatchNorm2d(64), nn.ReLU()) for c, s in ((64, 1), (128, 2), (256, 4)))
        self.head = nn.Conv2d(192, 2 * 7 + 2 + 4, 1)

    def forward(self, pillars, counts, places):
        inside = (torch.arange(pillars.shape[1])[None] < counts[:, None]).to(pillars.dtype)[..., None]
        centre = (pillars[..., :3] * inside).sum(1, keepdim=True) / counts[:, None, None].to(pillars.dtype)
        x = torch.cat([pillars, pillars[..., :3] - centre, pillars[..., :2] - places[:, None].to(pillars.dtype) * 0.16], -1)
        x = (self.points(x) * inside).amax(1)
        grid = torch.zeros(64, 64 * 64, dtype=x.dtype)
        grid = grid.index_put((torch.arange(64)[:, None], (places[:, 0] * 64 + places[:, 1])[None]), x.t()).view(1, 64, 64, 64)
        found = []
        for stage, up in zip(self.stages, self.ups):
            grid = stage(grid)
            found.append(up(grid))
        return self.head(torch.cat(found, 1))


@network("pillars_ts_dyn", "script", 17, {name: {0: "pillars_count"} for name in ("pillars", "counts", "places")})
def pillars():
    def inputs(n):
        cells = torch.randperm(64 * 64)[:n]
        return {"pillars": torch.randn(n, 20, 4), "counts": torch.randint(1, 21, (n,)), "places": torch.stack([cells // 64, cells % 64], 1)}
    return Pillars(), inputs(600), inputs(351)


class LiftSplat(nn.Module):
    """Images lifted by a distribution over depths, summed into a grid of the ground by scatter."""

    def __init__(self, depths=24, width=32, cells=32 * 32):
        super().__init__()
        self.body = nn.Sequential(ConvNorm(3, 32, 3, 2), ConvNorm(32, 64, 3, 2), ConvNorm(64, 64, 3, 2))
        self.head, self.depths, self.cells = nn.Conv2d(64, depths + width, 1), depths, cells
        self.register_buffer("where", torch.randint(0, cells, (4 * depths * 8 * 16,)))
        self.bev = nn.Sequential(ConvNorm(width, 64, 3), ConvNorm(64, 64, 3), nn.Conv2d(64, 4, 1))

    def forward(self, views):
        b, n = views.shape[:2]
        x = self.head(self.body(views.flatten(0, 1)))
        depth, features = x[:, :self.depths].softmax(1), x[:, self.depths:]
        lifted = (depth[:, :, None] * features[:, None]).view(b, n, self.depths, -1, 8, 16).permute(0, 1, 2, 4, 5, 3).flatten(1, 4)
        ground = torch.zeros(b, self.cells, lifted.shape[-1], dtype=x.dtype)
        ground = ground.scatter_add(1, self.where[None, :, None].expand_as(lifted), lifted)
        return self.bev(ground.transpose(1, 2).view(b, -1, 32, 32))


@network("lift_splat_ts", "script", 18)
def lift_splat():
    return LiftSplat(), {"views": torch.randn(1, 4, 3, 64, 128)}


class EdgeGraph(nn.Module):
    """Messages along edges, their mean, maximum and sum of squares per node, attention over a node's edges (scatter_reduce)."""

    def __init__(self, width=64):
        super().__init__()
        self.first, self.edge = nn.Linear(16, width), nn.ModuleList(Mlp(2 * width + 8, width, width) for _ in range(2))
        self.node, self.score = nn.ModuleList(Mlp(4 * width, width, width) for _ in range(2)), nn.ModuleList(nn.Linear(width, 1) for _ in range(2))
        self.last = nn.Linear(width, 5)

    def forward(self, nodes, source, target, edges):
        x = self.first(nodes)
        for edge, node, score in zip(self.edge, self.node, self.score):
            m = F.relu(edge(torch.cat([x[source], x[target], edges], -1)))
            at, zero = target[:, None].expand_as(m), torch.zeros_like(x)
            total = zero.scatter_reduce(0, at, m, "sum")
            most = zero.scatter_reduce(0, at, m, "amax")
            s = score(m).exp()
            one = torch.zeros_like(x[:, :1])
            weights = s / (one.scatter_reduce(0, target[:, None], s, "sum")[target] + 1e-6)
            x = x + node(torch.cat([x, total * 0.2, most, zero.scatter_add(0, at, m * weights)], -1))
        return self.last(x).log_softmax(-1)


@network("edge_graph_ts_dyn", "script", 18, {"nodes": {0: "count"}, "source": {0: "links"}, "target": {0: "links"}, "edges": {0: "links"}})
def edge_graph():
    def inputs(n, e):
        return {"nodes": torch.randn(n, 16), "source": torch.randint(0, n, (e,)), "target": torch.randint(0, n, (e,)), "edges": torch.randn(e, 8)}
    return EdgeGraph(), inputs(200, 900), inputs(77, 310)


class PartialAndShift(nn.Module):
    """Convolutions of a quarter of the channels, shifts by slices, element-wise products of branches, gates over positions (FasterNet, AS-MLP, StarNet, gMLP)."""

    class Faster(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.part = width // 4
            self.conv, self.mlp = nn.Conv2d(self.part, self.part, 3, 1, 1, bias=False), nn.Sequential(ConvNorm(width, 2 * width), nn.Conv2d(2 * width, width, 1))

        def forward(self, x):
            a, b = torch.split(x, [self.part, x.shape[1] - self.part], 1)
            return x + self.mlp(torch.cat([self.conv(a), b], 1))

    class Star(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.dw, self.dw2 = ConvNorm(width, width, 7, groups=width, act=None), nn.Conv2d(width, width, 7, 1, 3, groups=width)
            self.f1, self.f2, self.g = nn.Conv2d(width, 3 * width, 1), nn.Conv2d(width, 3 * width, 1), ConvNorm(3 * width, width, act=None)

        def forward(self, x):
            y = self.dw(x)
            return x + self.dw2(self.g(F.relu6(self.f1(y)) * self.f2(y)))

    class Shift(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.norm, self.one, self.two, self.out = nn.GroupNorm(1, width), nn.Conv2d(width, width, 1), nn.Conv2d(width, width, 1), nn.Conv2d(width, width, 1)

        def forward(self, x):
            y = F.gelu(self.one(self.norm(x)))
            rows = torch.cat([torch.roll(part, s, 2) for part, s in zip(y.chunk(4, 1), (-2, -1, 1, 2))], 1)
            padded = F.pad(y, (2, 2))
            columns = torch.cat([padded[:, k * (y.shape[1] // 4):(k + 1) * (y.shape[1] // 4), :, 2 + s:2 + s + y.shape[3]] for k, s in enumerate((-2, -1, 1, 2))], 1)
            return x + self.out(F.gelu(self.two(rows)) + columns)

    def __init__(self, width=48):
        super().__init__()
        self.body = nn.Sequential(ConvNorm(3, width, 4, 4), self.Faster(width), self.Star(width), ConvNorm(width, 2 * width, 2, 2), self.Faster(2 * width), self.Shift(2 * width), self.Star(2 * width),
                                  ConvNorm(2 * width, 4 * width, 2, 2), self.Shift(4 * width), self.Faster(4 * width))
        self.gate, self.inner, self.back, self.norm = nn.Linear(196, 196), nn.Linear(4 * width, 8 * width), nn.Linear(4 * width, 4 * width), nn.LayerNorm(4 * width)
        self.head = nn.Linear(4 * width, 100)

    def forward(self, image):
        x = self.body(image).flatten(2).transpose(1, 2)
        u, v = F.gelu(self.inner(self.norm(x))).chunk(2, -1)
        x = x + self.back(u * (1 + self.gate(v.transpose(1, 2)).transpose(1, 2)))
        return self.head(x.mean(1))


@network("partial_shift_ts_dyn", "script", 17, {"image": {0: "batch"}})
def partial_shift():
    net = PartialAndShift()
    net.body[0][0].padding = (0, 0)
    for k in (3, 7):
        net.body[k][0].padding = (0, 0)
    return net, {"image": image(224)}, {"image": image(224, batch=2)}


class DualPath(nn.Module):
    """Speech in overlapping chunks, recurrences within and across them, overlap and add (dual-path RNN, SepFormer)."""

    def __init__(self, width=64, chunk=50):
        super().__init__()
        self.encode, self.chunk = nn.Conv1d(1, width, 16, 8), chunk
        self.norm, self.inner, self.outer = nn.GroupNorm(1, width), nn.GRU(width, width, batch_first=True, bidirectional=True), TransformerLayer(width, 4, 128)
        self.back, self.mask, self.decode = nn.Linear(2 * width, width), nn.Conv1d(width, 2 * width, 1), nn.ConvTranspose1d(width, 1, 16, 8)

    def forward(self, wave):
        features = F.relu(self.encode(wave[:, None]))
        b, c, t = features.shape
        half = self.chunk // 2
        x = F.pad(self.norm(features), (half, half + (half - t % half) % half))
        first = x[:, :, :-half].reshape(b, c, -1, half)
        second = x[:, :, half:].reshape(b, c, -1, half)
        chunks = torch.cat([first, second], -1)
        n = chunks.shape[2]
        y = chunks.permute(0, 2, 3, 1).reshape(b * n, self.chunk, c)
        y = y + self.back(self.inner(y)[0])
        y = y.view(b, n, self.chunk, c).transpose(1, 2).reshape(b * self.chunk, n, c)
        y = self.outer(y).view(b, self.chunk, n, c).permute(0, 3, 2, 1)
        first, second = y[..., :half].reshape(b, c, -1), y[..., half:].reshape(b, c, -1)
        joined = F.pad(first, (0, half)) + F.pad(second, (half, 0))
        masks = torch.sigmoid(self.mask(joined[:, :, half:half + t])).view(b, 2, c, t)
        return self.decode((masks * features[:, None]).view(b * 2, c, t)).view(b, 2, -1)


@network("dual_path_ts_dyn", "script", 17, {"wave": {0: "batch"}})
def dual_path():
    return DualPath(), {"wave": torch.randn(1, 8000)}, {"wave": torch.randn(2, 8000)}


class Experts(nn.Module):
    """Recommendation: attention of a candidate over a history, several experts and tasks, outer products of feature maps (DIN, MMoE, xDeepFM)."""

    def __init__(self, width=32, experts=4):
        super().__init__()
        self.items, self.users = nn.Embedding(2000, width), nn.Embedding(500, width)
        self.attend, self.cross = Mlp(4 * width, 64, 1, act=nn.PReLU), nn.ModuleList([nn.Conv1d(9, 16, 1), nn.Conv1d(48, 16, 1)])
        self.experts = nn.ModuleList(Mlp(3 * width + 32, 128, 64, last=True) for _ in range(experts))
        self.gates, self.towers = nn.ModuleList(nn.Linear(3 * width + 32, experts) for _ in range(2)), nn.ModuleList(Mlp(64, 32, 1) for _ in range(2))

    def forward(self, user, item, history):
        u, i, h = self.users(user), self.items(item), self.items(history)
        wide = i[:, None].expand_as(h)
        scores = self.attend(torch.cat([wide, h, wide - h, wide * h], -1)).masked_fill((history == 0)[..., None], -1e9)
        taste = (scores.softmax(1) * h).sum(1)
        base = torch.stack([u, i, taste], 1)
        maps, found = base, []
        for conv in self.cross:
            maps = F.relu(conv(torch.einsum("bhd,bmd->bhmd", maps, base).flatten(1, 2)))
            found.append(maps.sum(-1))
        x = torch.cat([u, i, taste, *found], -1)
        opinions = torch.stack([expert(x) for expert in self.experts], 1)
        return tuple(torch.sigmoid(tower(torch.einsum("be,bed->bd", gate(x).softmax(-1), opinions))) for gate, tower in zip(self.gates, self.towers))


@network("recommend_experts_ts_dyn", "script", 17, {name: {0: "batch"} for name in ("user", "item", "history")})
def recommend_experts():
    def inputs(b):
        history = torch.randint(1, 2000, (b, 30))
        history[:, 20:] = 0
        return {"user": torch.randint(0, 500, (b,)), "item": torch.randint(0, 2000, (b,)), "history": history}
    return Experts(), inputs(32), inputs(1)


class Kernels(nn.Module):
    """Attention that is not softmax: random features, low-rank keys, differences of two maps, distances (Performer, Linformer, differential)."""

    def __init__(self, width=256, heads=4, length=128):
        super().__init__()
        self.embed, self.heads = nn.Embedding(2000, width), heads
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(3))
        self.out = nn.ModuleList(nn.Linear(width, width) for _ in range(3))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.register_buffer("random", torch.randn(64, width // heads))
        self.low, self.scale, self.head = nn.Linear(length, 32, bias=False), nn.Parameter(torch.tensor(0.5)), nn.Linear(width, 10)

    def features(self, x):
        y = x @ self.random.t() * x.shape[-1] ** -0.25
        return torch.exp(y - x.square().sum(-1, keepdim=True) * 0.5 * x.shape[-1] ** -0.5 - y.amax((-1, -2), keepdim=True)) + 1e-4

    def forward(self, words):
        x = self.embed(words)
        b, t, c = x.shape
        for index in range(3):
            q, k, v = self.qkv[index](self.norms[index](x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            if index == 0:
                q, k = self.features(q), self.features(k)
                y = q @ (k.transpose(2, 3) @ v) / (q @ k.sum(2)[..., None])
            elif index == 1:
                k, v = self.low(k.transpose(2, 3)), self.low(v.transpose(2, 3)).transpose(2, 3)
                y = (q @ k * q.shape[-1] ** -0.5).softmax(-1) @ v
            else:
                (q1, q2), (k1, k2) = q.chunk(2, -1), k.chunk(2, -1)
                causal = torch.full((t, t), float("-inf")).triu(1)
                one, two = (((a @ z.transpose(2, 3)) * a.shape[-1] ** -0.5 + causal).softmax(-1) for a, z in ((q1, k1), (q2, k2)))
                y = (one - self.scale * two) @ v
                y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-5)
            x = x + self.out[index](y.transpose(1, 2).reshape(b, t, c))
        return self.head(x)


@network("kernel_attention_ts_dyn", "script", 17, {"words": {0: "batch"}})
def kernel_attention():
    return Kernels(), {"words": tokens(1, 128)}, {"words": tokens(3, 128)}


class Painter(nn.Module):
    """Norms whose scale and shift are images, nearest and bilinear enlargements, instance norms, pixel unshuffle (SPADE, pix2pix)."""

    class Spade(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.norm, self.shared = nn.InstanceNorm2d(width), nn.Conv2d(12, 64, 3, 1, 1)
            self.scale, self.shift, self.conv = nn.Conv2d(64, width, 3, 1, 1), nn.Conv2d(64, width, 3, 1, 1), nn.Conv2d(width, width, 3, 1, 1)

        def forward(self, x, labels):
            y = F.relu(self.shared(F.interpolate(labels, size=x.shape[2:], mode="nearest")))
            return x + self.conv(F.leaky_relu(self.norm(x) * (1 + self.scale(y)) + self.shift(y), 0.2))

    def __init__(self, width=96):
        super().__init__()
        self.first, self.blocks = nn.Conv2d(12 * 64, width, 3, 1, 1), nn.ModuleList(self.Spade(width) for _ in range(3))
        self.last = nn.Conv2d(width, 3, 3, 1, 1)

    def forward(self, labels):
        onehot = F.one_hot(labels, 12).permute(0, 3, 1, 2).to(self.last.weight.dtype)
        x = self.first(F.pixel_unshuffle(onehot, 8))
        for index, block in enumerate(self.blocks):
            x = block(x, onehot)
            if index < 2:
                x = F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=index == 1)
        return torch.tanh(self.last(F.leaky_relu(x, 0.2)))


@network("painter_ts", "script", 17)
def painter():
    return Painter(), {"labels": torch.randint(0, 12, (1, 128, 128))}


class NeuralMemory(nn.Module):
    """A controller that addresses a memory by content and shift, step by step; capsules with routing by agreement."""

    def __init__(self, width=64, slots=32):
        super().__init__()
        self.cell, self.slots, self.width = nn.LSTMCell(16 + width, 128), slots, width
        self.key, self.rest, self.write = nn.Linear(128, width), nn.Linear(128, 6), nn.Linear(128, 2 * width)
        self.start = nn.Parameter(0.1 * torch.randn(slots, width))
        self.capsules, self.head = nn.Parameter(0.1 * torch.randn(1, slots, 8, 16, width)), nn.Linear(8 * 16, 10)

    def forward(self, steps):
        b = steps.shape[0]
        memory, h, c = self.start.expand(b, -1, -1), torch.zeros(b, 128, dtype=steps.dtype), torch.zeros(b, 128, dtype=steps.dtype)
        weights, read = torch.full((b, self.slots), 1.0 / self.slots, dtype=steps.dtype), torch.zeros(b, self.width, dtype=steps.dtype)
        for t in range(steps.shape[1]):
            h, c = self.cell(torch.cat([steps[:, t], read], -1), (h, c))
            rest = self.rest(h)
            content = (F.softplus(rest[:, :1]) * F.cosine_similarity(self.key(h)[:, None], memory, dim=-1)).softmax(-1)
            gate, shift = torch.sigmoid(rest[:, 1:2]), rest[:, 2:5].softmax(-1)
            weights = gate * content + (1 - gate) * weights
            weights = sum(torch.roll(weights, s, -1) * shift[:, s + 1:s + 2] for s in (-1, 0, 1)) ** (1 + F.softplus(rest[:, 5:]))
            weights = weights / (weights.sum(-1, keepdim=True) + 1e-8)
            erase, add = self.write(h).chunk(2, -1)
            memory = memory * (1 - weights[..., None] * torch.sigmoid(erase)[:, None]) + weights[..., None] * add[:, None]
            read = (weights[..., None] * memory).sum(1)
        votes = (self.capsules @ memory[:, :, None, :, None]).squeeze(-1)
        logits = torch.zeros(b, self.slots, 8, 1, dtype=steps.dtype)
        for _ in range(3):
            s = (logits.softmax(2) * votes).sum(1, keepdim=True)
            squared = s.square().sum(-1, keepdim=True)
            v = squared / (1 + squared) * s / torch.sqrt(squared + 1e-8)
            logits = logits + (votes * v).sum(-1, keepdim=True)
        return self.head(v.flatten(1))


@network("neural_memory_ts_dyn", "script", 17, {"steps": {0: "batch"}})
def neural_memory():
    return NeuralMemory(), {"steps": torch.randn(2, 12, 16)}, {"steps": torch.randn(3, 12, 16)}
