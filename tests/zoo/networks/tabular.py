"""Graphs, tables, series, games."""

import torch
from torch import nn
from torch.nn import functional as F

from networks import network
from networks.blocks import Mlp, TransformerLayer


class GraphAttention(nn.Module):
    """GCN, then GAT over a list of edges: messages gathered, a softmax per target node by scatter, added up by scatter."""

    def __init__(self, width=128, heads=4):
        super().__init__()
        self.heads, self.first, self.second = heads, nn.Linear(64, width), nn.Linear(width, width)
        self.source, self.target = (nn.Parameter(torch.randn(heads, width // heads) * 0.2) for _ in range(2))
        self.head = nn.Linear(width, 7)

    def forward(self, nodes, edges):
        source, target = edges[0], edges[1]
        count = nodes.shape[0]
        degree = torch.zeros(count, dtype=nodes.dtype).scatter_add(0, target, torch.ones_like(target, dtype=nodes.dtype)) + 1
        scale = degree.rsqrt()
        x = self.first(nodes)
        message = x[source] * (scale[source] * scale[target])[:, None]
        x = F.relu(torch.zeros_like(x).scatter_add(0, target[:, None].expand_as(message), message) + x / degree[:, None])
        h = self.second(x).view(count, self.heads, -1)
        score = F.leaky_relu((h * self.source).sum(-1)[source] + (h * self.target).sum(-1)[target], 0.2)
        places = target[:, None].expand(-1, self.heads)
        largest = torch.full((count, self.heads), -1e9, dtype=score.dtype).scatter_reduce(0, places, score, "amax")
        weight = torch.exp(score - largest[target])
        total = torch.zeros(count, self.heads, dtype=score.dtype).scatter_add(0, places, weight)
        message = h[source] * (weight / (total[target] + 1e-9))[..., None]
        x = torch.zeros_like(h).scatter_add(0, target[:, None, None].expand_as(message), message)
        return self.head(F.elu(x.flatten(1))).log_softmax(-1)


def graph(nodes, edges):
    return {"nodes": torch.randn(nodes, 64), "edges": torch.randint(0, nodes, (2, edges))}


@network("gcn_gat", "dynamo", 18)
def graph_attention():
    return GraphAttention(), graph(200, 900)


@network("gcn_gat_ts_dyn", "script", 18, {"nodes": {0: "count"}, "edges": {1: "links"}})
def graph_attention_dynamic():
    return GraphAttention(), graph(150, 600), graph(181, 740)


class Recommender(nn.Module):
    """DLRM: bags of embeddings summed, products of all pairs, two perceptrons."""

    def __init__(self, tables=8, width=64):
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(1000 * (k % 3 + 1), width, mode="sum") for k in range(tables))
        self.bottom, self.top = Mlp(13, 256, width, last=True), Mlp(width + (tables + 1) * tables // 2, 256, 64, 1)
        rows, columns = torch.tril_indices(tables + 1, tables + 1, -1)
        self.register_buffer("rows", rows)
        self.register_buffer("columns", columns)

    def forward(self, dense, sparse):
        x = self.bottom(dense)
        found = torch.stack([x] + [bag(sparse[:, k]) for k, bag in enumerate(self.bags)], 1)
        pairs = torch.bmm(found, found.transpose(1, 2))[:, self.rows, self.columns]
        return torch.sigmoid(self.top(torch.cat([x, pairs], 1)))


@network("dlrm_ts", "script", 17)
def dlrm():
    return Recommender(), {"dense": torch.rand(16, 13), "sparse": torch.randint(0, 1000, (16, 8, 4))}


class DeepFm(nn.Module):
    """Factorization machine beside a perceptron and crosses (DCN)."""

    def __init__(self, fields=26, width=16):
        super().__init__()
        self.embed, self.linear, self.deep = nn.Embedding(fields * 100, width), nn.Embedding(fields * 100, 1), Mlp(fields * width, 400, 400, 1)
        self.cross = nn.ModuleList(nn.Linear(fields * width, fields * width) for _ in range(2))
        self.last = nn.Linear(fields * width, 1)
        self.register_buffer("offsets", torch.arange(fields) * 100)

    def forward(self, fields):
        places = fields + self.offsets
        x = self.embed(places)
        second = 0.5 * (x.sum(1).square() - x.square().sum(1)).sum(1, keepdim=True)
        flat = x.flatten(1)
        crossed = flat
        for layer in self.cross:
            crossed = flat * layer(crossed) * 0.1 + crossed
        return torch.sigmoid(0.1 * (self.linear(places).sum(1) + second + self.deep(flat) + self.last(crossed)))


@network("deepfm_dyn", "dynamo", 18, {"fields": {0: "batch"}})
def deepfm():
    return DeepFm(), {"fields": torch.randint(0, 100, (32, 26))}, {"fields": torch.randint(0, 100, (1, 26))}


class TabTransformer(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.columns = nn.ModuleList(nn.Embedding(50, width) for _ in range(10))
        self.scale, self.offset = nn.Parameter(torch.randn(6, width)), nn.Parameter(torch.randn(6, width))
        self.token, self.layers = nn.Parameter(torch.randn(width)), nn.Sequential(*(TransformerLayer(width, 8, 256) for _ in range(3)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 2)

    def forward(self, categories, numbers):
        x = [embed(categories[:, k]) for k, embed in enumerate(self.columns)]
        x = torch.cat([self.token.expand(numbers.shape[0], 1, -1), torch.stack(x, 1), numbers[:, :, None] * self.scale + self.offset], 1)
        return self.head(F.relu(self.norm(self.layers(x)[:, 0])))


@network("tab_transformer", "dynamo", 18)
def tab_transformer():
    return TabTransformer(), {"categories": torch.randint(0, 50, (8, 10)), "numbers": torch.randn(8, 6)}


class NBeats(nn.Module):
    """Every block subtracts what it explains; trends as polynomials, seasons as sines."""

    def __init__(self, back=96, ahead=24, width=256):
        super().__init__()
        self.back = back
        self.bodies, self.thetas = nn.ModuleList(Mlp(back, width, width, width, last=True) for _ in range(4)), nn.ModuleList(nn.Linear(width, 16) for _ in range(4))
        t = torch.linspace(-1, 1, back + ahead)
        trend = torch.stack([t ** k for k in range(8)])
        season = torch.cat([torch.stack([f(3.14159 * k * t) for k in range(1, 5)]) for f in (torch.cos, torch.sin)])
        self.register_buffer("trend", trend)
        self.register_buffer("season", season)

    def forward(self, series):
        rest, forecast = series, 0
        for index, (body, theta) in enumerate(zip(self.bodies, self.thetas)):
            basis = self.trend if index < 2 else self.season
            a, b = theta(body(rest)).split(8, -1)
            rest = rest - a @ basis[:, :self.back]
            forecast = forecast + b @ basis[:, self.back:]
        return forecast


@network("nbeats_ts_dyn", "script", 17, {"series": {0: "batch"}})
def nbeats():
    return NBeats(), {"series": torch.randn(4, 96)}, {"series": torch.randn(1, 96)}


class Tcn(nn.Module):
    """Dilated causal convolutions with weight normalization, written out in the graph, and residuals."""

    class Block(nn.Module):
        def __init__(self, a, b, dilation):
            super().__init__()
            conv = lambda a, b: torch.nn.utils.parametrizations.weight_norm(nn.Conv1d(a, b, 3, padding=2 * dilation, dilation=dilation))
            self.one, self.two, self.cut, self.skip = conv(a, b), conv(b, b), 2 * dilation, nn.Conv1d(a, b, 1) if a != b else nn.Identity()

        def forward(self, x):
            y = F.relu(self.one(x)[:, :, :-self.cut])
            return F.relu(F.relu(self.two(y)[:, :, :-self.cut]) + self.skip(x))

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Sequential(self.Block(8, 64, 1), self.Block(64, 64, 2), self.Block(64, 64, 4), self.Block(64, 64, 8)), nn.Linear(64, 10)

    def forward(self, series):
        return self.head(self.body(series)[:, :, -1])


@network("tcn", "dynamo", 18)
def tcn():
    return Tcn(), {"series": torch.randn(2, 8, 200)}


class PatchSeries(nn.Module):
    """PatchTST: every series normalized by itself, cut into overlapping patches, put back into its scale."""

    def __init__(self, width=128, patch=16, stride=8):
        super().__init__()
        self.patch, self.stride, self.first = patch, stride, nn.Linear(patch, width)
        self.places, self.layers, self.head = nn.Parameter(torch.randn(42, width) * 0.1), nn.Sequential(*(TransformerLayer(width, 8, 256) for _ in range(2))), nn.Linear(42 * width, 96)

    def forward(self, series):
        mean, deviation = series.mean(1, keepdim=True), torch.sqrt(series.var(1, keepdim=True, unbiased=False) + 1e-5)
        x = ((series - mean) / deviation).transpose(1, 2)
        x = F.pad(x, (0, self.stride), mode="replicate").unfold(-1, self.patch, self.stride)
        b, c, n, p = x.shape
        x = self.layers(self.first(x).reshape(b * c, n, -1) + self.places)
        return self.head(x.flatten(1)).view(b, c, -1).transpose(1, 2) * deviation + mean


@network("patch_tst", "dynamo", 20)
def patch_tst():
    return PatchSeries(), {"series": torch.randn(2, 336, 7)}


class Autoformer(nn.Module):
    """Trends by moving averages, a correlation over lags by Fourier transforms, the best lags rolled and averaged."""

    def __init__(self, width=128):
        super().__init__()
        self.first, self.qkv, self.out, self.head = nn.Conv1d(7, width, 3, padding=1, padding_mode="circular"), nn.Linear(width, 3 * width), nn.Linear(width, width), nn.Linear(width, 7)

    @staticmethod
    def trend(x):
        x = torch.cat([x[:, :1].repeat(1, 12, 1), x, x[:, -1:].repeat(1, 12, 1)], 1)
        return F.avg_pool1d(x.permute(0, 2, 1), 25, 1).permute(0, 2, 1)

    def forward(self, series):
        x = self.first(series.transpose(1, 2)).transpose(1, 2)
        q, k, v = self.qkv(x).chunk(3, -1)
        correlation = torch.fft.irfft(torch.fft.rfft(q, dim=1) * torch.conj(torch.fft.rfft(k, dim=1)), n=96, dim=1).mean(-1)
        weights, lags = torch.topk(correlation, 4, -1)
        weights = weights.softmax(-1)
        places = (torch.arange(96)[None, :, None] + lags[:, None]) % 96
        gathered = torch.gather(v[:, :, None].expand(-1, -1, 4, -1), 1, places[..., None].expand(-1, -1, -1, v.shape[-1]))
        x = x + self.out((gathered * weights[:, None, :, None]).sum(2))
        return self.head(x - self.trend(x)) + self.trend(series)


@network("autoformer", "dynamo", 20)
def autoformer():
    return Autoformer(), {"series": torch.randn(2, 96, 7)}


class Policy(nn.Module):
    """IMPALA's network: frames, a GRU cell that is reset where an episode ended, actions and their value."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten(), nn.Linear(3136, 512), nn.LayerNorm(512), nn.ReLU())
        self.actions, self.cell, self.policy, self.value = nn.Embedding(18, 32), nn.GRUCell(544, 256), nn.Linear(256, 18), nn.Linear(256, 1)

    def forward(self, frames, last, done, state):
        x = torch.cat([self.body(frames.to(state.dtype) / 255), self.actions(last)], -1)
        state = self.cell(x, torch.where(done[:, None], torch.zeros_like(state), state))
        logits = self.policy(state)
        return logits.log_softmax(-1), logits.argmax(-1), self.value(state).squeeze(-1), state


@network("policy_gru_ts_dyn", "script", 17, {name: {0: "batch"} for name in ("frames", "last", "done", "state")})
def policy():
    def inputs(batch):
        return {"frames": torch.randint(0, 256, (batch, 4, 84, 84), dtype=torch.uint8), "last": torch.randint(0, 18, (batch,)), "done": torch.arange(batch) % 2 == 1, "state": torch.randn(batch, 256)}
    return Policy(), inputs(2), inputs(5)


class NHits(nn.Module):
    """N-HiTS: a series pooled at several rates, few numbers forecast from each and interpolated; every stack takes out what it explains."""

    def __init__(self, length=168, horizon=48):
        super().__init__()
        self.rates, self.horizon, self.length = (8, 4, 1), horizon, length
        self.stacks = nn.ModuleList(nn.Sequential(nn.Linear(-(-length // rate), 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, length + max(horizon // rate, 1))) for rate in self.rates)

    def forward(self, series):
        left, forecast = series, series[:, -1:].expand(-1, self.horizon)
        for rate, stack in zip(self.rates, self.stacks):
            theta = stack(F.max_pool1d(left[:, None], rate, rate, ceil_mode=True)[:, 0])
            left = left - theta[:, :self.length]
            forecast = forecast + F.interpolate(theta[:, None, self.length:], size=self.horizon, mode="linear")[:, 0]
        return forecast


@network("nhits_ts_dyn", "script", 17, {"series": {0: "batch"}})
def nhits():
    return NHits(), {"series": torch.randn(16, 168)}, {"series": torch.randn(1, 168)}


class TabNet(nn.Module):
    """Columns chosen step by step by a sparsemax (sorted scores, running sums), gated perceptrons halved in variance, BatchNorm throughout."""

    class Unit(nn.Module):
        def __init__(self, inputs, width):
            super().__init__()
            self.linear, self.norm = nn.Linear(inputs, 2 * width, bias=False), nn.BatchNorm1d(2 * width)

        def forward(self, x):
            return F.glu(self.norm(self.linear(x)), -1)

    def __init__(self, columns=54, width=64, steps=3):
        super().__init__()
        self.norm, self.width = nn.BatchNorm1d(columns), width
        self.shared = nn.ModuleList((self.Unit(columns, 2 * width), self.Unit(2 * width, 2 * width)))
        self.own = nn.ModuleList(nn.ModuleList(self.Unit(2 * width, 2 * width) for _ in range(2)) for _ in range(steps + 1))
        self.masks = nn.ModuleList(nn.Sequential(nn.Linear(width, columns, bias=False), nn.BatchNorm1d(columns)) for _ in range(steps))
        self.head = nn.Linear(width, 7)

    @staticmethod
    def sparsemax(x):
        ranked = x.sort(-1, descending=True)[0]
        ranks = torch.arange(1, x.shape[-1] + 1, dtype=x.dtype)
        sums = ranked.cumsum(-1) - 1
        count = (ranks * ranked > sums).sum(-1, keepdim=True)
        return (x - sums.gather(-1, count - 1) / count.to(x.dtype)).clamp(min=0)

    def transform(self, x, own):
        x = self.shared[0](x)
        for layer in (self.shared[1], *own):
            x = (x + layer(x)) * 0.5 ** 0.5
        return x.split(self.width, -1)

    def forward(self, rows):
        x = self.norm(rows)
        _, attended = self.transform(x, self.own[0])
        prior, total = torch.ones_like(x), 0
        for own, mask in zip(self.own[1:], self.masks):
            chosen = self.sparsemax(mask(attended) * prior)
            prior = prior * (1.5 - chosen)
            decided, attended = self.transform(chosen * x, own)
            total = total + F.relu(decided)
        return self.head(total)


@network("tabnet_dyn", "dynamo", 18, {"rows": {0: "batch"}})
def tabnet():
    return TabNet(), {"rows": torch.randn(64, 54)}, {"rows": torch.randn(5, 54)}


@network("tabnet_ts", "script", 17)
def tabnet_ts():
    return TabNet(), {"rows": torch.randn(64, 54)}
