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


@torch.jit.script
def paste(masks: Tensor, boxes: Tensor, size: Tensor) -> Tensor:
    """Mask R-CNN's: every mask is resized to its box and put where that lies in the picture."""
    height, width = int(size[0]), int(size[1])
    out = torch.zeros(0, height, width)
    for k in range(boxes.size(0)):
        left, top, right, bottom = int(boxes[k, 0]), int(boxes[k, 1]), int(boxes[k, 2]) + 1, int(boxes[k, 3]) + 1
        mask = nn.functional.interpolate(masks[k:k + 1], size=[max(bottom - top, 1), max(right - left, 1)], mode="bilinear", align_corners=False)[0, 0]
        x0, x1, y0, y1 = max(left, 0), min(right, width), max(top, 0), min(bottom, height)
        inside = nn.functional.pad(mask[y0 - top:y1 - top, x0 - left:x1 - left], [x0, width - x1, y0, height - y1])
        out = torch.cat([out, inside.unsqueeze(0)], 0)
    return out


class PasteMasks(nn.Module):
    def forward(self, masks, boxes, size):
        return paste(masks, boxes, size)


@network("paste_masks_ts_dyn", "script", 17, {"masks": {0: "count"}, "boxes": {0: "count"}})
def paste_masks():
    boxes = torch.tensor([[-3, 2, 20, 30], [4, 4, 4, 9], [10, -6, 70, 20], [50, 40, 63, 47]])
    return (PasteMasks(), {"masks": torch.rand(4, 1, 28, 28), "boxes": boxes, "size": torch.tensor([48, 64])},
            {"masks": torch.rand(1, 1, 28, 28), "boxes": torch.tensor([[5, 5, 50, 40]]), "size": torch.tensor([60, 80])})


@torch.jit.script
def suppress(boxes: Tensor, scores: Tensor) -> Tensor:
    """Non-maximum suppression as a loop until no box is left."""
    kept, order = torch.zeros(0, dtype=torch.long), scores.argsort(descending=True)
    while order.numel() > 0:
        best, rest = order[0:1], order[1:]
        kept = torch.cat([kept, best], 0)
        inner = (torch.minimum(boxes[rest, 2:], boxes[best, 2:]) - torch.maximum(boxes[rest, :2], boxes[best, :2])).clamp(min=0)
        common = inner[:, 0] * inner[:, 1]
        areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        order = rest[common <= 0.5 * (areas[rest] + areas[best] - common)]
    return kept


class SuppressionLoop(nn.Module):
    def __init__(self):
        super().__init__()
        self.refine = nn.Linear(4, 4)

    def forward(self, corners, scores):
        boxes = torch.cat([corners, corners + 4 + corners.sum(1, keepdim=True) % 17], 1)
        kept = suppress(boxes, scores)
        return kept, self.refine(boxes[kept] * 0.02)


@network("suppression_loop_ts_dyn", "script", 17, {"corners": {0: "count"}, "scores": {0: "count"}})
def suppression_loop():
    return (SuppressionLoop(), {"corners": torch.rand(60, 2) * 50, "scores": torch.rand(60)}, {"corners": torch.rand(7, 2) * 50, "scores": torch.rand(7)})


@torch.jit.script
def search(state: Tensor, table: Tensor, update: Tensor, scores: Tensor, steps: Tensor):
    """Beam search: the best four sequences, one word longer in every step."""
    words, total = torch.zeros(4, 1, dtype=torch.long), torch.tensor([0.0, -1e4, -1e4, -1e4])
    state = state.expand(4, state.size(1))
    for _ in range(int(steps)):
        state = torch.tanh(torch.matmul(torch.cat([table[words[:, -1]], state], 1), update))
        total, best = (torch.log_softmax(torch.matmul(state, scores), 1) + total.unsqueeze(1)).view(-1).topk(4)
        origin = torch.div(best, scores.size(1), rounding_mode="floor")
        state, words = state[origin], torch.cat([words[origin], (best - origin * scores.size(1)).unsqueeze(1)], 1)
    return words, total


class BeamSearch(nn.Module):
    def __init__(self, width=64, vocabulary=200):
        super().__init__()
        self.table, self.update = nn.Parameter(torch.randn(vocabulary, width)), nn.Parameter(torch.randn(2 * width, width) * 0.2)
        self.scores = nn.Parameter(torch.randn(width, vocabulary) * 0.4)

    def forward(self, state, steps):
        return search(state, self.table, self.update, self.scores, steps)


@network("beam_search_ts", "script", 17)
def beam_search():
    return BeamSearch(), {"state": torch.randn(1, 64), "steps": torch.tensor(12)}


@torch.jit.script
def by_lengths(x: Tensor, q: Tensor, lengths: Tensor) -> Tensor:
    """Attention within each of several sequences that lie behind one another."""
    out, first = torch.zeros(0, x.size(1)), 0
    for k in range(lengths.size(0)):
        count = int(lengths[k])
        part = x[first:first + count]
        out = torch.cat([out, torch.matmul(torch.softmax(torch.matmul(q[first:first + count], part.t()) * 0.125, 1), part)], 0)
        first += count
    return out


class PackedSequences(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.query, self.out = nn.Linear(width, width), nn.Linear(width, 16)

    def forward(self, x, lengths):
        return self.out(by_lengths(x, self.query(x), lengths))


@network("packed_sequences_ts_dyn", "script", 17, {"x": {0: "words"}, "lengths": {0: "count"}})
def packed_sequences():
    return (PackedSequences(), {"x": torch.randn(40, 64), "lengths": torch.tensor([7, 1, 20, 12])},
            {"x": torch.randn(23, 64), "lengths": torch.tensor([3, 20])})


@torch.jit.script
def remember(x: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Attention to all that came before: keys, values and results grow by a row per step."""
    keys, values, out = torch.zeros(0, key.size(1)), torch.zeros(0, value.size(1)), torch.zeros(0, value.size(1))
    for k in range(x.size(0)):
        row = x[k:k + 1]
        keys, values = torch.cat([keys, torch.matmul(row, key)], 0), torch.cat([values, torch.matmul(row, value)], 0)
        out = torch.cat([out, torch.matmul(torch.softmax(torch.matmul(row, keys.t()) * 0.125, 1), values)], 0)
    return out


class GrowingMemory(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.key, self.value = nn.Parameter(torch.randn(width, width) * 0.125), nn.Parameter(torch.randn(width, width) * 0.125)
        self.out = nn.Linear(width, 16)

    def forward(self, x):
        return self.out(remember(x, self.key, self.value))


@network("growing_memory_ts_dyn", "script", 17, {"x": {0: "steps"}})
def growing_memory():
    return GrowingMemory(), {"x": torch.randn(96, 64)}, {"x": torch.randn(17, 64)}
