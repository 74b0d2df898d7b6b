"""Text: taggers, encoders, readers."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from networks import network
from networks.blocks import Attention, Mlp, TransformerLayer, tokens


class CharTagger(nn.Module):
    """Words and their letters (convolved, maximum), two bidirectional LSTMs, scores of tags."""

    def __init__(self):
        super().__init__()
        self.words, self.letters, self.conv = nn.Embedding(2000, 128), nn.Embedding(64, 32), nn.Conv1d(32, 64, 3, padding=1)
        self.lstm, self.head = nn.LSTM(192, 200, 2, batch_first=True, bidirectional=True), nn.Linear(400, 17)

    def forward(self, words, letters):
        b, t, c = letters.shape
        x = self.conv(self.letters(letters.view(b * t, c)).transpose(1, 2)).max(2)[0].view(b, t, -1)
        return self.head(self.lstm(torch.cat([self.words(words), x], -1))[0])


@network("lstm_tagger_ts_dyn", "script", 17, {"words": {0: "batch", 1: "length"}, "letters": {0: "batch", 1: "length"}})
def lstm_tagger():
    inputs = lambda b, t: {"words": tokens(b, t), "letters": torch.randint(0, 64, (b, t, 12))}
    return CharTagger(), inputs(2, 24), inputs(1, 37)


class GruAttention(nn.Module):
    """A bidirectional GRU read by Luong's attention, the tags' transitions added (a CRF's scores)."""

    def __init__(self):
        super().__init__()
        self.embed, self.gru, self.score = nn.Embedding(2000, 128), nn.GRU(128, 192, 2, batch_first=True, bidirectional=True), nn.Linear(384, 384, bias=False)
        self.join, self.head, self.transitions = nn.Linear(768, 256), nn.Linear(256, 9), nn.Parameter(torch.randn(9, 9))

    def forward(self, words, mask):
        x, _ = self.gru(self.embed(words))
        scores = torch.bmm(self.score(x), x.transpose(1, 2)).masked_fill(~mask[:, None], -1e9)
        x = torch.tanh(self.join(torch.cat([torch.bmm(scores.softmax(-1), x), x], -1)))
        emission = self.head(x)
        best = emission[:, 0]
        for step in range(1, 12):
            best = (best[:, :, None] + self.transitions).max(1)[0] + emission[:, step]
        return emission, best


@network("gru_crf_tagger", "dynamo", 18)
def gru_tagger():
    mask = torch.ones(2, 12, dtype=torch.bool)
    mask[1, 9:] = False
    return GruAttention(), {"words": tokens(2, 12), "mask": mask}


class TextCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.convs, self.head = nn.Embedding(2000, 300), nn.ModuleList(nn.Conv1d(300, 100, k) for k in (3, 4, 5)), nn.Linear(300, 6)

    def forward(self, words):
        x = self.embed(words).permute(0, 2, 1)
        return self.head(torch.cat([F.max_pool1d(F.relu(conv(x)), conv(x).shape[2]).squeeze(2) for conv in self.convs], 1))


@network("text_cnn", "dynamo", 18)
def text_cnn():
    return TextCnn(), {"words": tokens(4, 64)}


class RelativeBias(nn.Module):
    """T5's attention: buckets of distances, RMS norms, no scaling, gated GELU."""

    def __init__(self, width=512, heads=8, hidden=1024):
        super().__init__()
        self.embed, self.buckets, self.heads = nn.Embedding(2000, width), nn.Embedding(32, heads), heads
        self.layers = nn.ModuleList(nn.ModuleDict({"qkv": nn.Linear(width, 3 * width, bias=False), "out": nn.Linear(width, width, bias=False), "gate": nn.Linear(width, hidden, bias=False),
                                                   "up": nn.Linear(width, hidden, bias=False), "down": nn.Linear(hidden, width, bias=False)}) for _ in range(2))
        self.scales = nn.Parameter(torch.ones(5, width))

    def norm(self, x, index):
        return self.scales[index] * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))

    @staticmethod
    def bucket(distance):
        side = (distance > 0).long() * 16
        distance = distance.abs()
        far = 8 + (torch.log(distance.float() / 8 + 1e-9) / math.log(16) * 8).long()
        return side + torch.where(distance < 8, distance, torch.minimum(far, torch.full_like(far, 15)))

    def forward(self, words, mask):
        b, t = words.shape
        places = torch.arange(t)
        bias = self.buckets(self.bucket(places[None] - places[:, None])).permute(2, 0, 1)[None]
        bias = bias + (1.0 - mask[:, None, None].to(bias.dtype)) * -1e9
        x = self.embed(words)
        for index, layer in enumerate(self.layers):
            q, k, v = layer["qkv"](self.norm(x, 2 * index)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            scores = torch.matmul(q * 0.3, k.transpose(3, 2)) + bias
            x = x + layer["out"](torch.matmul(F.softmax(scores, -1), v).transpose(1, 2).reshape(b, t, -1))
            y = self.norm(x, 2 * index + 1)
            x = x + layer["down"](F.gelu(layer["gate"](y), approximate="tanh") * layer["up"](y))
        return self.norm(x, 4)


@network("t5_bias_ts_dyn", "script", 17, {"words": {0: "batch", 1: "length"}, "mask": {0: "batch", 1: "length"}})
def t5_bias():
    def inputs(b, t):
        mask = torch.ones(b, t, dtype=torch.int64)
        mask[-1, t - 6:] = 0
        return {"words": tokens(b, t), "mask": mask}
    return RelativeBias(), inputs(2, 40), inputs(1, 57)


class Perceiver(nn.Module):
    """A few learned vectors read many inputs by cross attention, then each other."""

    def __init__(self, width=384, count=64, inputs=256):
        super().__init__()
        self.latents, self.inputs = nn.Parameter(torch.randn(count, width)), nn.Linear(inputs, 256)
        self.norm1, self.norm2, self.cross = nn.LayerNorm(width), nn.LayerNorm(256), Attention(width, 1, 256)
        self.layers = nn.Sequential(*(TransformerLayer(width, 8, width) for _ in range(2)))
        self.query, self.decode, self.head = nn.Parameter(torch.randn(1, 1, width)), Attention(width, 1), nn.Linear(width, 500)

    def forward(self, array):
        memory = self.norm2(self.inputs(array))
        x = self.latents.expand(array.shape[0], -1, -1)
        x = self.layers(x + self.cross(self.norm1(x), memory))
        return self.head(self.decode(self.query.repeat(array.shape[0], 1, 1), x).squeeze(1))


@network("perceiver_dyn", "dynamo", 18, {"array": {0: "batch", 1: "length"}})
def perceiver():
    return Perceiver(), {"array": torch.randn(2, 300, 256)}, {"array": torch.randn(1, 450, 256)}


class FNet(nn.Module):
    """Fourier transforms over words and features instead of attention."""

    def __init__(self, width=256):
        super().__init__()
        self.embed, self.norm = nn.Embedding(2000, width), nn.LayerNorm(width)
        self.layers = nn.ModuleList(nn.ModuleList([nn.LayerNorm(width), Mlp(width, 1024, width, act=nn.GELU), nn.LayerNorm(width)]) for _ in range(2))

    def forward(self, words):
        x = self.norm(self.embed(words))
        for norm1, mlp, norm2 in self.layers:
            mixed = torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real
            x = norm1(x + mixed / x.shape[-1] ** 0.5)
            x = norm2(x + mlp(x))
        return x


@network("fnet", "dynamo", 20)
def fnet():
    return FNet(), {"words": tokens(1, 128)}


class LocalAttention(nn.Module):
    """Longformer's chunks: every block of words sees itself and its neighbours, by unfold of padded keys."""

    def __init__(self, width=256, heads=4, block=32):
        super().__init__()
        self.embed, self.heads, self.block = nn.Embedding(2000, width), heads, block
        self.qkv, self.out, self.norm, self.mlp = nn.Linear(width, 3 * width), nn.Linear(width, width), nn.LayerNorm(width), Mlp(width, 1024, width, act=nn.GELU)

    def forward(self, words):
        b, t = words.shape
        x = self.embed(words)
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.norm(x)).chunk(3, -1))
        n, w = t // self.block, self.block
        q = q.reshape(b, self.heads, n, w, -1)
        k, v = (F.pad(y, (0, 0, w, w)).unfold(2, 3 * w, w) for y in (k, v))
        scores = torch.einsum("bhnid,bhndj->bhnij", q, k) / q.shape[-1] ** 0.5
        rows, columns = torch.arange(w)[:, None] + w, torch.arange(3 * w)
        absolute = torch.arange(n)[:, None, None] * w + columns - w
        legal = ((rows - columns).abs() <= w) & (absolute >= 0) & (absolute < t)
        weights = scores.masked_fill(~legal, float("-inf")).softmax(-1)
        mixed = torch.einsum("bhnij,bhndj->bhnid", weights, v).reshape(b, self.heads, t, -1)
        x = x + self.out(mixed.transpose(1, 2).reshape(b, t, -1))
        return x + self.mlp(x)


@network("local_attention", "dynamo", 18)
def local_attention():
    return LocalAttention(), {"words": tokens(1, 256)}


class Pointer(nn.Module):
    """BiDAF: similarity of every word with every word of a question, attention both ways, the likeliest span."""

    def __init__(self, width=100):
        super().__init__()
        self.embed, self.read = nn.Embedding(2000, width), nn.LSTM(width, width, batch_first=True, bidirectional=True)
        self.similarity = nn.Linear(6 * width, 1)
        self.model, self.start, self.end = nn.LSTM(8 * width, width, batch_first=True, bidirectional=True), nn.Linear(10 * width, 1), nn.Linear(10 * width, 1)

    def forward(self, passage, question):
        p, q = self.read(self.embed(passage))[0], self.read(self.embed(question))[0]
        n, m = p.shape[1], q.shape[1]
        a, b = p[:, :, None].expand(-1, -1, m, -1), q[:, None].expand(-1, n, -1, -1)
        s = self.similarity(torch.cat([a, b, a * b], -1)).squeeze(-1)
        toward = torch.bmm(s.softmax(2), q)
        back = torch.bmm(s.max(2)[0].softmax(1)[:, None], p).expand(-1, n, -1)
        g = torch.cat([p, toward, p * toward, p * back], -1)
        both = torch.cat([g, self.model(g)[0]], -1)
        start, end = self.start(both).squeeze(-1), self.end(both).squeeze(-1)
        spans = (start[:, :, None] + end[:, None]).triu().masked_fill(torch.ones(n, n, dtype=torch.bool).tril(-1), -1e30)
        return start, end, spans.flatten(1).argmax(1)


@network("bidaf_reader_ts", "script", 17)
def bidaf():
    return Pointer(), {"passage": tokens(1, 80), "question": tokens(1, 12)}


class Yoso(nn.Module):
    """Attention as an expectation over hashes: how alike the angles of queries and keys are, to a power, in place of exponentials."""

    def __init__(self, width=384, heads=6, bits=9):
        super().__init__()
        self.embed, self.heads, self.bits = nn.Embedding(2000, width), heads, bits
        self.layers = nn.ModuleList(nn.ModuleDict({"qkv": nn.Linear(width, 3 * width), "out": nn.Linear(width, width), "norm1": nn.LayerNorm(width), "norm2": nn.LayerNorm(width),
                                                   "conv": nn.Conv2d(heads, heads, (5, 1), padding=(2, 0), groups=heads, bias=False), "mlp": Mlp(width, 4 * width, width, act=nn.GELU)}) for _ in range(2))

    def forward(self, words, mask):
        b, t = words.shape
        x = self.embed(words)
        kept = mask[:, None, :, None].to(x.dtype)
        for layer in self.layers:
            q, k, v = layer["qkv"](x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            likeness = torch.matmul(F.normalize(q, dim=-1), F.normalize(k, dim=-1).transpose(-1, -2)).clamp(-0.999, 0.999)
            weights = (1 - torch.acos(likeness) / math.pi) ** self.bits * kept * kept.transpose(2, 3)
            y = F.normalize(torch.matmul(weights, v), dim=-1) + layer["conv"](v * kept)
            x = layer["norm1"](x + layer["out"](y.permute(0, 2, 1, 3).reshape(b, t, -1)))
            x = layer["norm2"](x + layer["mlp"](x))
        return x


@network("yoso_ts_dyn", "script", 17, {"words": {0: "batch", 1: "length"}, "mask": {0: "batch", 1: "length"}})
def yoso():
    def inputs(b, t):
        mask = torch.ones(b, t, dtype=torch.int64)
        mask[-1, t - 9:] = 0
        return {"words": tokens(b, t), "mask": mask}
    return Yoso(), inputs(2, 64), inputs(1, 97)


class BlockSparse(nn.Module):
    """BigBird: blocks of words see the first and last block, their neighbours and a few drawn at random; the first and last block see everything."""

    def __init__(self, width=256, heads=4, block=16, blocks=12):
        super().__init__()
        self.embed, self.heads, self.block, self.blocks = nn.Embedding(2000, width), heads, block, blocks
        self.qkv, self.out, self.norm, self.mlp = nn.Linear(width, 3 * width), nn.Linear(width, width), nn.LayerNorm(width), Mlp(width, 1024, width, act=nn.GELU)
        drawn = [[(row * 5 + 3) % blocks, (row * 7 + 4) % blocks] for row in range(2, blocks - 2)]
        self.register_buffer("drawn", torch.tensor(drawn))

    def attend(self, q, k, v, bias):
        scores = torch.einsum("...qd,...kd->...qk", q, k) * q.shape[-1] ** -0.5 + bias
        return torch.einsum("...qk,...kd->...qd", scores.softmax(-1), v)

    def forward(self, words, mask):
        b, t = words.shape
        n, w = self.blocks, self.block
        x = self.embed(words)
        q, k, v = (y.view(b, n, w, self.heads, -1).permute(0, 3, 1, 2, 4) for y in self.qkv(self.norm(x)).chunk(3, -1))
        off = ((1.0 - mask.to(x.dtype)) * -1e4).view(b, 1, n, w)
        whole, everything = off.reshape(b, 1, 1, 1, t), (slice(None), slice(None), None)
        ends = self.attend(q[:, :, [0, n - 1]], k.reshape(b, self.heads, t, -1)[everything], v.reshape(b, self.heads, t, -1)[everything], whole)
        near = lambda y: torch.cat([y[:, :, 1:-3], y[:, :, 2:-2], y[:, :, 3:-1]], 3)
        far = lambda y: torch.cat([y[:, :, :1].expand(-1, -1, n - 4, *y.shape[3:]), y[:, :, -1:].expand(-1, -1, n - 4, *y.shape[3:]), y[:, :, self.drawn].flatten(3, 4)], 3)
        sides = [self.attend(q[:, :, row:row + 1], *(torch.cat([y[:, :, i:i + 1] for i in order], 3) for y in (k, v)), torch.cat([off[:, :, i:i + 1] for i in order], 3)[:, :, :, None])
                 for row, order in ((1, (0, 1, 2, n - 1)), (n - 2, (0, n - 3, n - 2, n - 1)))]
        middle = self.attend(q[:, :, 2:-2], torch.cat([near(k), far(k)], 3), torch.cat([near(v), far(v)], 3), torch.cat([near(off), far(off)], 3)[:, :, :, None])
        mixed = torch.cat([ends[:, :, :1], sides[0], middle, sides[1], ends[:, :, 1:]], 2)
        x = x + self.out(mixed.permute(0, 2, 3, 1, 4).reshape(b, t, -1))
        return x + self.mlp(x)


def block_sparse_inputs(batch):
    mask = torch.ones(batch, 192, dtype=torch.int64)
    mask[-1, 150:] = 0
    return {"words": tokens(batch, 192), "mask": mask}


@network("big_bird_ts", "script", 17)
def big_bird_ts():
    return BlockSparse(), block_sparse_inputs(1)


@network("big_bird_dyn", "dynamo", 18, {"words": {0: "batch"}, "mask": {0: "batch"}})
def big_bird():
    return BlockSparse(), block_sparse_inputs(2), block_sparse_inputs(3)
