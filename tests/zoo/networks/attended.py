"""What else attention may be: heads that talk, other normalizations than SoftMax, memories, axes, landmarks, random features, distances, trees of guesses."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from networks import network
from networks.blocks import Mlp, tokens


class Mixer(nn.Module):
    """A token mixer with its projections; `mix(j, q, k, v)` of [batch, heads, tokens, depth] is the subclass's."""

    vocabulary = 2000

    def __init__(self, width=256, heads=4, layers=2, act=nn.GELU):
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(self.vocabulary, width)
        self.entry = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.exit = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers))
        self.mlps = nn.ModuleList(Mlp(width, 4 * width, width, act=act) for _ in range(layers))
        self.head = nn.Linear(width, self.vocabulary)

    def split(self, x):
        return x.reshape(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def join(self, x):
        return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1)

    def forward(self, ids):
        x = self.embed(ids)
        for j in range(len(self.entry)):
            q, k, v = (self.split(part) for part in self.entry[j](self.norms[2 * j](x)).chunk(3, -1))
            x = x + self.exit[j](self.join(self.mix(j, q, k, v)))
            x = x + self.mlps[j](self.norms[2 * j + 1](x))
        return self.head(x)


class TalkingHeads(Mixer):
    """Scores mix across heads before and after SoftMax."""

    def __init__(self):
        super().__init__()
        self.before, self.after = (nn.ParameterList(nn.Parameter(torch.eye(self.heads) + torch.randn(self.heads, self.heads) / 4) for _ in self.entry) for _ in range(2))

    def mix(self, j, q, k, v):
        scores = torch.einsum("bhqk,hg->bgqk", q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, self.before[j])
        return torch.einsum("bhqk,hg->bgqk", scores.softmax(-1), self.after[j]) @ v


@network("talking_heads_ts_dyn", "script", 17, {"ids": {0: "batch", 1: "length"}})
def talking_heads():
    return TalkingHeads(), {"ids": tokens(2, 96)}, {"ids": tokens(1, 50)}


class QuietAttention(Mixer):
    """SoftMax with one more exponential in the denominator: a head may say nothing. Causal."""

    def mix(self, j, q, k, v):
        n = q.shape[2]
        scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        scores = scores.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), float("-inf"))
        largest = scores.amax(-1, keepdim=True).clamp(min=0)
        weights = torch.exp(scores - largest)
        return weights / (torch.exp(-largest) + weights.sum(-1, keepdim=True)) @ v


@network("quiet_attention_dyn", "dynamo", 18, {"ids": {1: "length"}})
def quiet_attention():
    return QuietAttention(), {"ids": tokens(1, 128)}, {"ids": tokens(1, 77)}


class SigmoidAttention(Mixer):
    """Sigmoids of scores less the logarithm of how many keys there are; normalized queries and keys, a temperature per head."""

    def __init__(self):
        super().__init__(width=384, heads=6)
        self.temperature = nn.ParameterList(nn.Parameter(torch.full((self.heads, 1, 1), 5.0)) for _ in self.entry)

    def mix(self, j, q, k, v):
        scores = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-1, -2) * self.temperature[j].exp().clamp(max=100)
        return torch.sigmoid(scores - math.log(k.shape[2])) @ v


@network("sigmoid_attention_ts", "script", 17)
def sigmoid_attention():
    return SigmoidAttention(), {"ids": tokens(1, 160)}


class SparseWeights(Mixer):
    """1.5-entmax: a threshold from sorted scores and their running sums; most weights are zero."""

    def mix(self, j, q, k, v):
        x = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 * 4
        x = (x - x.amax(-1, keepdim=True)) / 2
        largest = x.sort(-1, descending=True).values
        rho = torch.arange(1, x.shape[-1] + 1, dtype=x.dtype)
        mean, mean_square = largest.cumsum(-1) / rho, (largest ** 2).cumsum(-1) / rho
        tau = mean - torch.sqrt(((1 - rho * (mean_square - mean ** 2)) / rho).clamp(min=0))
        support = (tau <= largest).sum(-1, keepdim=True)
        return (x - tau.gather(-1, support - 1)).clamp(min=0) ** 2 @ v


@network("sparse_weights_ts", "script", 17)
def sparse_weights():
    return SparseWeights(), {"ids": tokens(1, 96)}


class RecurrentMemory(nn.Module):
    """Transformer-XL: keys reach into a memory of earlier states; relative positions by shifting rows."""

    def __init__(self, width=256, heads=4, layers=2, memory=64):
        super().__init__()
        self.heads, self.memory = heads, memory
        self.embed = nn.Embedding(2000, width)
        self.q, self.r, self.out = (nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(layers)) for _ in range(3))
        self.kv = nn.ModuleList(nn.Linear(width, 2 * width, bias=False) for _ in range(layers))
        self.u, self.w = (nn.Parameter(torch.randn(heads, 1, width // heads) / 8) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers))
        self.mlps = nn.ModuleList(Mlp(width, 4 * width, width) for _ in range(layers))
        self.register_buffer("frequency", 10000.0 ** (-torch.arange(0, width, 2) / width))

    def split(self, x):
        return x.reshape(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, ids, memories):
        x, kept = self.embed(ids), []
        b, n = ids.shape
        total = n + memories.shape[2]
        turn = torch.arange(total - 1, -1, -1, dtype=x.dtype)[:, None] * self.frequency
        position = torch.cat([turn.sin(), turn.cos()], -1)[None]
        hidden = torch.ones(n, total, dtype=torch.bool).triu(1 + total - n)
        for j in range(len(self.q)):
            kept.append(torch.cat([memories[j], x], 1)[:, -self.memory:])
            seen = torch.cat([memories[j], x], 1)
            q = self.split(self.q[j](x))
            k, v = (self.split(part) for part in self.kv[j](seen).chunk(2, -1))
            content = (q + self.u) @ k.transpose(-1, -2)
            place = (q + self.w) @ self.split(self.r[j](position)).transpose(-1, -2)
            shifted = F.pad(place, (1, 0)).reshape(b, self.heads, total + 1, n)[:, :, 1:].reshape(b, self.heads, n, total)
            scores = ((content + shifted) * q.shape[-1] ** -0.5).masked_fill(hidden, -65000.0)
            y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, -1)
            x = self.norms[2 * j](x + self.out[j](y))
            x = self.norms[2 * j + 1](x + self.mlps[j](x))
        return x @ self.embed.weight.t(), torch.stack(kept)


@network("recurrent_memory_dyn", "dynamo", 18, {"ids": {1: "length"}})
def recurrent_memory():
    return RecurrentMemory(), {"ids": tokens(1, 64), "memories": torch.randn(2, 1, 64, 256)}, {"ids": tokens(1, 40), "memories": torch.randn(2, 1, 64, 256)}


class Axes(nn.Module):
    """Axial attention over the rows, then the columns of an image; positions relative to the query enter queries, keys and values."""

    def __init__(self, width=128, heads=8, size=28, layers=2):
        super().__init__()
        self.heads, self.depth = heads, width // heads
        self.stem = nn.Sequential(nn.Conv2d(3, width, 7, 4, 3), nn.BatchNorm2d(width), nn.ReLU())
        self.entry = nn.ModuleList(nn.ModuleList(nn.Sequential(nn.Conv1d(width, 2 * width, 1, bias=False), nn.BatchNorm1d(2 * width)) for _ in range(2)) for _ in range(layers))
        self.relative = nn.ParameterList(nn.Parameter(torch.randn(2 * self.depth, 2 * size - 1) / 8) for _ in range(2 * layers))
        self.scores = nn.ModuleList(nn.ModuleList(nn.BatchNorm2d(3 * heads) for _ in range(2)) for _ in range(layers))
        self.register_buffer("index", torch.arange(size)[:, None] - torch.arange(size) + size - 1)
        self.head = nn.Linear(width, 100)

    def along(self, x, j, axis):
        b, c, h, w = x.shape
        lines = (x.permute(0, 2, 1, 3) if axis else x.permute(0, 3, 1, 2)).reshape(-1, c, w if axis else h)
        n, half = lines.shape[2], self.depth // 2
        q, k, v = self.entry[j][axis](lines).reshape(-1, self.heads, 2 * self.depth, n).split([half, half, self.depth], 2)
        place = self.relative[2 * j + axis][:, self.index.reshape(-1)].reshape(-1, n, n)
        to_q, to_k, to_v = place.split([half, half, self.depth], 0)
        found = torch.cat([torch.einsum("bgci,bgcj->bgij", q, k), torch.einsum("bgci,cij->bgij", q, to_q), torch.einsum("bgci,cij->bgij", k, to_k).transpose(2, 3)], 1)
        weights = self.scores[j][axis](found).reshape(-1, 3, self.heads, n, n).sum(1).softmax(-1)
        y = torch.einsum("bgij,bgcj->bgci", weights, v) + torch.einsum("bgij,cij->bgci", weights, to_v)
        y = y.reshape(b, w if not axis else h, c, n)
        return y.permute(0, 2, 1, 3) if axis else y.permute(0, 2, 3, 1)

    def forward(self, picture):
        x = self.stem(picture)
        for j in range(len(self.entry)):
            x = x + F.relu(self.along(F.relu(self.along(x, j, 0)), j, 1))
        return self.head(x.mean((2, 3)))


@network("axes_ts", "script", 17)
def axes_script():
    return Axes(), {"picture": torch.randn(1, 3, 112, 112)}


@network("axes", "dynamo", 18)
def axes_dynamo():
    return Axes(), {"picture": torch.randn(1, 3, 112, 112)}


class TrainedWhileRunning(Mixer):
    """TTT-Linear: each head's weights take a step of gradient descent with every chunk of tokens, in its dual form."""

    def __init__(self):
        super().__init__(width=256, heads=4)
        depth = 64
        self.first = nn.ParameterList(nn.Parameter(torch.randn(self.heads, depth, depth) / depth) for _ in self.entry)
        self.scale = nn.ParameterList(nn.Parameter(torch.ones(self.heads, 1, depth)) for _ in self.entry)

    def mix(self, j, q, k, v, chunk=16):
        weights, rate, results = self.first[j], 1.0 / q.shape[-1], []
        lower = torch.ones(chunk, chunk).tril()
        for c in range(q.shape[2] // chunk):
            q_c, k_c, v_c = (t[:, :, c * chunk:(c + 1) * chunk] for t in (q, k, v))
            guess = k_c @ weights
            mean = guess.mean(-1, keepdim=True)
            spread = torch.sqrt(guess.var(-1, keepdim=True, unbiased=False) + 1e-6)
            normal = (guess - mean) / spread
            error = (normal * self.scale[j] - (v_c - k_c)) * self.scale[j]
            slope = (error - error.mean(-1, keepdim=True) - normal * (error * normal).mean(-1, keepdim=True)) / spread
            y = q_c @ weights - rate * (q_c @ k_c.transpose(-1, -2) * lower) @ slope
            weights = weights - rate * k_c.transpose(-1, -2) @ slope
            results.append(q_c + F.layer_norm(y, y.shape[-1:]) * self.scale[j])
        return torch.cat(results, 2)


@network("trained_while_running", "dynamo", 18)
def trained_while_running():
    return TrainedWhileRunning(), {"ids": tokens(1, 128)}


class Depths(nn.Module):
    """Mixture of depths: a router lets an eighth of the tokens through every other layer; the others skip it."""

    def __init__(self, width=256, heads=4, layers=4, chosen=24):
        super().__init__()
        self.heads, self.chosen = heads, chosen
        self.embed = nn.Embedding(2000, width)
        self.routers = nn.ModuleList(nn.Linear(width, 1, bias=False) for _ in range(layers // 2))
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(2 * layers))
        self.entry = nn.ModuleList(nn.Linear(width, 3 * width, bias=False) for _ in range(layers))
        self.exit = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(layers))
        self.mlps = nn.ModuleList(Mlp(width, 4 * width, width, act=nn.SiLU) for _ in range(layers))

    def block(self, j, x, position):
        b, n, c = x.shape
        q, k, v = self.entry[j](self.norms[2 * j](x)).reshape(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = (position[:, None, :, None] >= position[:, None, None, :])
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        x = x + self.exit[j](y.transpose(1, 2).reshape(b, n, c))
        return x + self.mlps[j](self.norms[2 * j + 1](x))

    def forward(self, ids):
        x = self.embed(ids)
        position = torch.arange(ids.shape[1])[None].expand(ids.shape[0], -1)
        for j in range(len(self.entry)):
            if j % 2 == 0:
                x = self.block(j, x, position)
                continue
            weight = self.routers[j // 2](x)[..., 0]
            at = weight.topk(self.chosen, -1).indices.sort(-1).values
            spread = at[..., None].expand(-1, -1, x.shape[-1])
            passed = x.gather(1, spread)
            gained = (self.block(j, passed, at) - passed) * weight.gather(1, at).sigmoid()[..., None]
            x = x.scatter_add(1, spread, gained)
        return x @ self.embed.weight.t()


@network("depths_dyn", "dynamo", 20, {"ids": {1: "length"}})
def depths():
    return Depths(), {"ids": tokens(2, 96)}, {"ids": tokens(2, 70)}


class Recalled(Mixer):
    """Memorizing transformer: besides its neighbours a token attends to the nearest of many remembered keys, gated per head."""

    def __init__(self, remembered=2048, nearest=8):
        super().__init__()
        self.nearest = nearest
        self.keys, self.values = (nn.Parameter(F.normalize(torch.randn(self.heads, remembered, 64), dim=-1)) for _ in range(2))
        self.gate = nn.Parameter(torch.randn(self.heads, 1, 1))

    def mix(self, j, q, k, v):
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        near = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=8.0)
        if j == 0:
            return near
        found, at = (q @ self.keys.transpose(-1, -2)).topk(self.nearest, -1)
        b, h, n, _ = q.shape
        values = self.values[torch.arange(h)[None, :, None, None], at]
        far = (found * 8).softmax(-1)[..., None, :] @ values
        gate = self.gate.sigmoid()
        return far[..., 0, :] * gate + near * (1 - gate)


@network("recalled_ts_dyn", "script", 17, {"ids": {1: "length"}})
def recalled():
    return Recalled(), {"ids": tokens(1, 64)}, {"ids": tokens(1, 45)}


class ProductKeys(nn.Module):
    """A memory of 4,096 values found by products of two halves of a query with 64 keys each; the best of their sums."""

    def __init__(self, width=256, heads=4, keys=64, best=16, layers=2):
        super().__init__()
        self.heads, self.count, self.best = heads, keys, best
        self.embed = nn.Embedding(2000, width)
        self.query = nn.ModuleList(nn.Sequential(nn.Linear(width, heads * 128), nn.BatchNorm1d(heads * 128)) for _ in range(layers))
        self.keys = nn.ParameterList(nn.Parameter(torch.randn(heads, 2, keys, 64) / 8) for _ in range(layers))
        self.values = nn.ModuleList(nn.Embedding(keys * keys, width) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))

    def forward(self, ids):
        x = self.embed(ids)
        b, n, c = x.shape
        for query, keys, values, norm in zip(self.query, self.keys, self.values, self.norms):
            q = query(norm(x).reshape(b * n, c)).reshape(b * n, self.heads, 2, 64)
            score, at = torch.einsum("thsd,hskd->thsk", q, keys).topk(self.best, -1)
            pairs = (score[:, :, 0, :, None] + score[:, :, 1, None, :]).reshape(b * n, self.heads, -1)
            places = (at[:, :, 0, :, None] * self.count + at[:, :, 1, None, :]).reshape(b * n, self.heads, -1)
            score, which = pairs.topk(self.best, -1)
            chosen = values(places.gather(-1, which))
            x = x + (chosen * score.softmax(-1)[..., None]).sum((1, 2)).reshape(b, n, c)
        return x @ self.embed.weight.t()


@network("product_keys_ts_dyn", "script", 17, {"ids": {0: "batch", 1: "length"}})
def product_keys():
    return ProductKeys(), {"ids": tokens(1, 48)}, {"ids": tokens(2, 33)}


class Guesses(nn.Module):
    """Medusa: a tree of guessed tokens is checked in one step against a cache; heads guess the next few for every node."""

    def __init__(self, width=256, heads=4, layers=2, guesses=3):
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(2000, width)
        self.entry = nn.ModuleList(nn.Linear(width, 3 * width, bias=False) for _ in range(layers))
        self.exit = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(layers))
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(2 * layers))
        self.mlps = nn.ModuleList(Mlp(width, 4 * width, width, act=nn.SiLU) for _ in range(layers))
        self.extra = nn.ModuleList(nn.Linear(width, width) for _ in range(guesses))
        self.head = nn.Linear(width, 2000, bias=False)

    def forward(self, ids, depth, tree, keys, values):
        x = self.embed(ids)
        b, n = ids.shape
        past = keys.shape[3]
        angle = (depth + past)[..., None] * 10000.0 ** (-torch.arange(32) / 32)
        cos, sin = angle.cos()[:, None], angle.sin()[:, None]
        rotate = lambda t: torch.cat([t[..., :32] * cos - t[..., 32:] * sin, t[..., 32:] * cos + t[..., :32] * sin], -1)
        mask = torch.cat([x.new_zeros(b, n, past), (tree - 1) * 1e9], -1)[:, None]
        new_keys, new_values = [], []
        for j in range(len(self.entry)):
            q, k, v = (part.reshape(b, n, self.heads, -1).transpose(1, 2) for part in self.entry[j](self.norms[2 * j](x)).chunk(3, -1))
            new_keys.append(torch.cat([keys[j], rotate(k)], 2))
            new_values.append(torch.cat([values[j], v], 2))
            y = F.scaled_dot_product_attention(rotate(q), new_keys[j], new_values[j], attn_mask=mask)
            x = x + self.exit[j](y.transpose(1, 2).reshape(b, n, -1))
            x = x + self.mlps[j](self.norms[2 * j + 1](x))
        guessed = torch.stack([self.head(x + F.silu(extra(x))) for extra in self.extra])
        return self.head(x).argmax(-1), guessed.topk(5, -1).indices, torch.stack(new_keys), torch.stack(new_values)


def tree_of(nodes):
    parents = [-1, 0, 0, 0, 1, 1, 2, 4, 4, 5, 7, 7][:nodes]
    depth, tree = torch.zeros(1, nodes), torch.zeros(1, nodes, nodes)
    for node, parent in enumerate(parents):
        tree[0, node, node] = 1
        if parent >= 0:
            depth[0, node], tree[0, node] = depth[0, parent] + 1, tree[0, parent] + tree[0, node]
    return depth, tree


def guesses_at(past, nodes):
    depth, tree = tree_of(nodes)
    return {"ids": tokens(1, nodes), "depth": depth, "tree": tree, "keys": torch.randn(2, 1, 4, past, 64), "values": torch.randn(2, 1, 4, past, 64)}


@network("guesses_dyn", "dynamo", 18, {"keys": {3: "past"}, "values": {3: "past"}})
def guesses():
    return Guesses(), guesses_at(100, 12), guesses_at(37, 12)


class RandomFeatures(Mixer):
    """Performer: positive random features of queries and keys, causal by running sums of their outer products."""

    def __init__(self, features=48):
        super().__init__(width=192, heads=4)
        self.register_buffer("directions", torch.randn(features, 48))

    def map(self, x, is_query):
        x = x * x.shape[-1] ** -0.25
        projected = x @ self.directions.t()
        largest = projected.amax(-1, keepdim=True) if is_query else projected.amax((-2, -1), keepdim=True)
        return torch.exp(projected - (x ** 2).sum(-1, keepdim=True) / 2 - largest) + 1e-4

    def mix(self, j, q, k, v):
        q, k = self.map(q, True), self.map(k, False)
        if j == 0:
            return q @ (k.transpose(-1, -2) @ v) / (q @ k.sum(-2)[..., None])
        context = (k[..., :, None] * v[..., None, :]).cumsum(2)
        return (q[..., None, :] @ context)[..., 0, :] / (q * k.cumsum(2)).sum(-1, keepdim=True)


@network("random_features_dyn", "dynamo", 18, {"ids": {1: "length"}})
def random_features():
    return RandomFeatures(), {"ids": tokens(1, 96)}, {"ids": tokens(1, 64)}


class Landmarks(Mixer):
    """Nyström attention: means of segments as landmarks, a pseudo-inverse by iteration, a depthwise convolution of the values beside it."""

    def __init__(self, landmarks=16):
        super().__init__()
        self.landmarks = landmarks
        self.skip = nn.ModuleList(nn.Conv2d(self.heads, self.heads, (9, 1), padding=(4, 0), groups=self.heads, bias=False) for _ in self.entry)

    def inverse(self, a):
        z = a.transpose(-1, -2) / (a.abs().sum(-1).amax() * a.abs().sum(-2).amax())
        one = torch.eye(a.shape[-1])
        for _ in range(6):
            az = a @ z
            z = z @ (13 * one - az @ (15 * one - az @ (7 * one - az))) / 4
        return z

    def mix(self, j, q, k, v):
        b, h, n, d = q.shape
        q, k = q * d ** -0.25, k * d ** -0.25
        q_mean, k_mean = (t.reshape(b, h, self.landmarks, -1, d).mean(-2) for t in (q, k))
        first, second, third = ((x @ y.transpose(-1, -2)).softmax(-1) for x, y in ((q, k_mean), (q_mean, k_mean), (q_mean, k)))
        return first @ self.inverse(second) @ (third @ v) + self.skip[j](v)


@network("landmarks_ts", "script", 17)
def landmarks():
    return Landmarks(), {"ids": tokens(1, 128)}


class SlidingChunks(Mixer):
    """Longformer: each chunk sees the one before and after, all see a few global tokens, which see all."""

    chunk, everywhere = 32, 4

    def mix(self, j, q, k, v):
        b, h, n, d = q.shape
        q = q * d ** -0.5
        c = n // self.chunk
        near = lambda t: F.pad(t, (0, 0, self.chunk, self.chunk)).unfold(2, 3 * self.chunk, self.chunk).transpose(-1, -2)
        scores = q.reshape(b, h, c, self.chunk, d) @ near(k).transpose(-1, -2)
        place = torch.arange(c)[:, None, None] * self.chunk
        query, key = place + torch.arange(self.chunk)[:, None], place + torch.arange(3 * self.chunk) - self.chunk
        outside = ((query - key).abs() > self.chunk) | (key < self.everywhere) | (key >= n)
        scores = scores.masked_fill(outside, float("-inf"))
        global_scores = (q @ k[:, :, :self.everywhere].transpose(-1, -2)).reshape(b, h, c, self.chunk, -1)
        weights = torch.cat([global_scores, scores], -1).softmax(-1)
        y = weights[..., self.everywhere:] @ near(v) + weights[..., :self.everywhere] @ v[:, :, None, :self.everywhere]
        whole = (q[:, :, :self.everywhere] @ k.transpose(-1, -2)).softmax(-1) @ v
        return torch.cat([whole, y.reshape(b, h, n, d)[:, :, self.everywhere:]], 2)


@network("sliding_chunks", "dynamo", 18)
def sliding_chunks():
    return SlidingChunks(), {"ids": tokens(1, 256)}


class Distances(Mixer):
    """Weights by the squared distance of query and key, one width per head; shared queries and keys."""

    def __init__(self):
        super().__init__()
        self.width = nn.ParameterList(nn.Parameter(torch.zeros(self.heads, 1, 1)) for _ in self.entry)

    def mix(self, j, q, k, v):
        if j == 0:
            distance = (q ** 2).sum(-1, keepdim=True) - 2 * q @ k.transpose(-1, -2) + (k ** 2).sum(-1)[..., None, :]
        else:
            distance = torch.cdist(q, k) ** 2
        return (-distance * F.softplus(self.width[j]) * q.shape[-1] ** -0.5).softmax(-1) @ v


@network("distances_ts_dyn", "script", 17, {"ids": {1: "length"}})
def distances():
    return Distances(), {"ids": tokens(1, 96)}, {"ids": tokens(1, 61)}


class DecayedBlocks(Mixer):
    """Lightning attention: linear, with a decay per head; quadratic within blocks, a state between them, RMSNorm and a gate behind."""

    def __init__(self, block=32):
        super().__init__(act=nn.SiLU)
        self.block = block
        self.gate = nn.ModuleList(nn.Linear(64, 64) for _ in self.entry)
        at = torch.arange(block)
        slope = 2.0 ** -torch.arange(1, self.heads + 1)[:, None, None] / 4
        self.register_buffer("inside", torch.exp(-slope * (at[:, None] - at)) * (at[:, None] >= at))
        self.register_buffer("q_decay", torch.exp(-slope * (at[:, None] + 1)))
        self.register_buffer("k_decay", torch.exp(-slope * (block - 1 - at[:, None])))
        self.register_buffer("block_decay", torch.exp(-slope * block))

    def mix(self, j, q, k, v):
        gate = torch.sigmoid(self.gate[j](v))
        q, k = F.silu(q), F.silu(k)
        state, results = torch.zeros(q.shape[0], self.heads, q.shape[-1], v.shape[-1]), []
        for q_b, k_b, v_b in zip(*(t.split(self.block, 2) for t in (q, k, v))):
            results.append((q_b @ k_b.transpose(-1, -2) * self.inside) @ v_b + q_b * self.q_decay @ state)
            state = self.block_decay * state + (k_b * self.k_decay).transpose(-1, -2) @ v_b
        return F.rms_norm(torch.cat(results, 2), (q.shape[-1],)) * gate


@network("decayed_blocks", "dynamo", 18)
def decayed_blocks():
    return DecayedBlocks(), {"ids": tokens(1, 160)}


class Patches(nn.Module):
    """Byte latent: hashes of n-grams beside bytes, cross attention from every four bytes to a patch and back."""

    def __init__(self, width=192, heads=4):
        super().__init__()
        self.heads = heads
        self.bytes = nn.Embedding(260, width)
        self.grams = nn.ModuleList(nn.Embedding(1024, width) for _ in range(3))
        self.to_patch, self.to_bytes = nn.MultiheadAttention(width, heads, batch_first=True), nn.MultiheadAttention(width, heads, batch_first=True)
        layer = lambda: nn.TransformerEncoderLayer(width, heads, 3 * width, activation="gelu", batch_first=True, norm_first=True)
        self.local, self.middle, self.last = layer(), nn.ModuleList(layer() for _ in range(2)), layer()
        self.head = nn.Linear(width, 260)

    def forward(self, text):
        x = self.bytes(text)
        for size, table in enumerate(self.grams, 3):
            value = torch.zeros_like(text)
            for back in range(size):
                value = (value * 257 + F.pad(text, (back, 0))[:, :text.shape[1]]) % 1000003
            x = x + table(value % 1024)
        b, n, c = x.shape
        causal = torch.full((n, n), float("-inf"), dtype=x.dtype).triu(1)
        x = self.local(x, src_mask=causal)
        groups = x.reshape(b * (n // 4), 4, c)
        patches = self.to_patch(groups.mean(1, keepdim=True), groups, groups, need_weights=False)[0].reshape(b, n // 4, c)
        for layer in self.middle:
            patches = layer(patches, src_mask=causal[:n // 4, :n // 4])
        late = torch.cat([x.new_zeros(b, 1, c), patches[:, :-1]], 1)
        x = x + self.to_bytes(x.reshape(b * (n // 4), 4, c), late.reshape(-1, 1, c), late.reshape(-1, 1, c), need_weights=False)[0].reshape(b, n, c)
        return self.head(self.last(x, src_mask=causal))


@network("patches_of_bytes", "dynamo", 18)
def patches_of_bytes():
    return Patches(), {"text": tokens(1, 128, 256)}


class FastLearner(nn.Module):
    """What speed runs of GPT-2 use: values of the first layer mixed in, the embedding back in every block, squared ReLU, capped logits, U-shaped skips, half
    of the rotary frequencies, a window that grows."""

    def __init__(self, width=256, heads=4, layers=4):
        super().__init__()
        self.heads, self.count = heads, layers
        self.embed = nn.Embedding(2000, width)
        self.value_embed = nn.Embedding(2000, width)
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width, bias=False) for _ in range(layers))
        self.out = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(layers))
        self.up = nn.ModuleList(nn.Linear(width, 4 * width, bias=False) for _ in range(layers))
        self.down = nn.ModuleList(nn.Linear(4 * width, width, bias=False) for _ in range(layers))
        self.mix = nn.Parameter(torch.rand(layers, 4))
        self.skips = nn.Parameter(torch.ones(layers // 2))
        self.head = nn.Linear(width, 2000, bias=False)

    def norm(self, x):
        return F.rms_norm(x, (x.shape[-1],))

    def rotate(self, x, angle):
        a, d = x.chunk(2, -1)
        return torch.cat([a * angle.cos() + d * angle.sin(), d * angle.cos() - a * angle.sin()], -1)

    def forward(self, ids):
        n = ids.shape[1]
        first = x = self.norm(self.embed(ids))
        extra = self.value_embed(ids).reshape(ids.shape[0], n, self.heads, -1).transpose(1, 2)
        frequency = torch.cat([(1 / 1024) ** torch.linspace(0, 1, 16), torch.zeros(16)])
        angle = torch.arange(n, dtype=x.dtype)[:, None] * frequency
        apart = torch.arange(n)[:, None] - torch.arange(n)
        kept = []
        for j in range(self.count):
            if j >= self.count // 2:
                x = x + self.skips[j - self.count // 2] * kept.pop()
            x = self.mix[j, 0] * x + self.mix[j, 1] * first
            q, k, v = (t.transpose(1, 2) for t in self.qkv[j](self.norm(x)).reshape(ids.shape[0], n, 3 * self.heads, -1).chunk(3, 2))
            q, k = self.rotate(self.norm(q), angle), self.rotate(self.norm(k), angle)
            v = self.mix[j, 2] * v + self.mix[j, 3] * extra
            seen = (apart >= 0) & (apart < 32 * (j + 1))
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=0.12)
            x = x + self.out[j](y.transpose(1, 2).reshape(ids.shape[0], n, -1))
            x = x + self.down[j](F.relu(self.up[j](self.norm(x))).square())
            if j < self.count // 2:
                kept.append(x)
        logits = self.head(self.norm(x))
        return 30 * torch.tanh(logits / 7.5)


@network("fast_learner_dyn", "dynamo", 18, {"ids": {1: "length"}})
def fast_learner():
    return FastLearner(), {"ids": tokens(1, 160)}, {"ids": tokens(1, 91)}
