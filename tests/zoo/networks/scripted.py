"""What torch.jit.script keeps: loops over time that append to lists, lists of states, a path read backwards."""

from typing import List

import torch
from torch import Tensor, nn

from networks import network
from networks.blocks import tokens

WORDS = {"ids": {0: "batch", 1: "length"}}


@torch.jit.script
def weighted_keys(k: Tensor, v: Tensor, decay: Tensor, bonus: Tensor) -> Tensor:
    """RWKV's recurrence, kept in range by the largest exponent so far."""
    total, weights, largest = torch.zeros_like(k[:, 0]), torch.zeros_like(k[:, 0]), torch.zeros_like(k[:, 0]) - 1e30
    out: List[Tensor] = []
    for t in range(k.size(1)):
        kt, vt = k[:, t], v[:, t]
        top = torch.maximum(largest, bonus + kt)
        old, new = torch.exp(largest - top), torch.exp(bonus + kt - top)
        out.append((old * total + new * vt) / (old * weights + new))
        top = torch.maximum(largest + decay, kt)
        old, new = torch.exp(largest + decay - top), torch.exp(kt - top)
        total, weights, largest = old * total + new * vt, old * weights + new, top
    return torch.stack(out, 1)


class RwkvLoop(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.embed, self.out = nn.Embedding(300, width), nn.Linear(width, 300)
        self.key, self.value, self.gate = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.decay, self.bonus = nn.Parameter(torch.rand(width)), nn.Parameter(torch.randn(width) * 0.3)

    def forward(self, ids):
        x = self.embed(ids)
        return self.out(self.gate(x).sigmoid() * weighted_keys(self.key(x), self.value(x), -torch.exp(self.decay), self.bonus))


@network("rwkv_loop_ts_dyn", "script", 17, WORDS)
def rwkv_loop():
    return RwkvLoop(), {"ids": tokens(2, 12, 300)}, {"ids": tokens(1, 21, 300)}


@torch.jit.script
def best_path(scores: Tensor, moves: Tensor):
    """Viterbi: the best labels of every position, found backwards."""
    score = scores[:, 0]
    back: List[Tensor] = []
    for t in range(1, scores.size(1)):
        value, index = (score.unsqueeze(2) + moves.unsqueeze(0)).max(1)
        score = value + scores[:, t]
        back.append(index)
    best, last = score.max(1)
    path = [last]
    for j in range(len(back)):
        path.append(back[len(back) - 1 - j].gather(1, path[-1].unsqueeze(1)).squeeze(1))
    return torch.stack(path, 1).flip([1]), best


class CrfTagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.read = nn.Embedding(200, 32), nn.LSTM(32, 24, bidirectional=True, batch_first=True)
        self.score, self.moves = nn.Linear(48, 7), nn.Parameter(torch.randn(7, 7))

    def forward(self, ids):
        return best_path(self.score(self.read(self.embed(ids))[0]), self.moves)


@network("crf_viterbi_ts_dyn", "script", 17, WORDS)
def crf_viterbi():
    return CrfTagger(), {"ids": tokens(2, 9, 200)}, {"ids": tokens(3, 15, 200)}


@torch.jit.script
def stacked_cells(x: Tensor, weights: List[Tensor], recurrent: List[Tensor]):
    """Recurrent layers whose states are a list that every step replaces."""
    states = [torch.zeros_like(torch.matmul(x[0], weights[0])) for _ in range(2)]
    out: List[Tensor] = []
    for t in range(x.size(0)):
        states[0] = torch.tanh(torch.matmul(x[t], weights[0]) + torch.matmul(states[0], recurrent[0]))
        states[1] = torch.tanh(torch.matmul(states[0], weights[1]) + torch.matmul(states[1], recurrent[1]))
        out.append(states[-1])
    return torch.stack(out), states[0], states[1]


class StackedCells(nn.Module):
    def __init__(self, inputs=40, width=96):
        super().__init__()
        self.first, self.second = nn.Parameter(torch.randn(inputs, width) * 0.15), nn.Parameter(torch.randn(width, width) * 0.1)
        self.again, self.more = nn.Parameter(torch.randn(width, width) * 0.1), nn.Parameter(torch.randn(width, width) * 0.1)

    def forward(self, x):
        return stacked_cells(x, [self.first, self.second], [self.again, self.more])


@network("stacked_cells_ts_dyn", "script", 17, {"x": {0: "length", 1: "batch"}})
def cells():
    return StackedCells(), {"x": torch.randn(14, 3, 40)}, {"x": torch.randn(9, 1, 40)}


@torch.jit.script
def counted_cells(x: Tensor, weights: List[Tensor], recurrent: List[Tensor]):
    """The same for layers of different widths, counted by an inner loop, and what they gave most recently in front."""
    states = [torch.zeros(x.size(1), weights[0].size(1)), torch.zeros(x.size(1), weights[1].size(1))]
    out: List[Tensor] = []
    for t in range(x.size(0)):
        y = x[t]
        for i in range(2):
            states[i] = torch.tanh(torch.matmul(y, weights[i]) + torch.matmul(states[i], recurrent[i]))
            y = states[i]
        out.append(y)
    last = [states[1]]
    for i in range(2, -1, -1):
        last.insert(0, out[i] - last[0])
    return torch.stack(out), states[0], torch.cat(last, 1)


class CountedCells(nn.Module):
    def __init__(self, inputs=40, width=96, narrow=56):
        super().__init__()
        self.first, self.second = nn.Parameter(torch.randn(inputs, width) * 0.15), nn.Parameter(torch.randn(width, narrow) * 0.1)
        self.again, self.more = nn.Parameter(torch.randn(width, width) * 0.1), nn.Parameter(torch.randn(narrow, narrow) * 0.1)

    def forward(self, x):
        return counted_cells(x, [self.first, self.second], [self.again, self.more])


@network("counted_cells_ts_dyn", "script", 17, {"x": {0: "length", 1: "batch"}})
def cells_counted():
    return CountedCells(), {"x": torch.randn(14, 3, 40)}, {"x": torch.randn(9, 1, 40)}
