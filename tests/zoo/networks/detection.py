"""Detectors and readers: heads that decode, sort and select."""

import torch
from torch import nn
from torch.nn import functional as F

from networks import network
from networks.blocks import ConvNorm, image


class CrossStage(nn.Module):
    """YOLO's C2f: split, bottlenecks, concatenate all."""

    def __init__(self, inputs, outputs, count, residual=True):
        super().__init__()
        half = outputs // 2
        self.first, self.last, self.residual = ConvNorm(inputs, outputs, act=nn.SiLU), ConvNorm((2 + count) * half, outputs, act=nn.SiLU), residual
        self.layers = nn.ModuleList(nn.Sequential(ConvNorm(half, half, 3, act=nn.SiLU), ConvNorm(half, half, 3, act=nn.SiLU)) for _ in range(count))

    def forward(self, x):
        parts = list(self.first(x).chunk(2, 1))
        for layer in self.layers:
            parts.append(parts[-1] + layer(parts[-1]) if self.residual else layer(parts[-1]))
        return self.last(torch.cat(parts, 1))


class PoolPyramid(nn.Module):
    """SPPF."""

    def __init__(self, width):
        super().__init__()
        self.first, self.last = ConvNorm(width, width // 2, act=nn.SiLU), ConvNorm(2 * width, width, act=nn.SiLU)

    def forward(self, x):
        x = [self.first(x)]
        for _ in range(3):
            x.append(F.max_pool2d(x[-1], 5, 1, 2))
        return self.last(torch.cat(x, 1))


class Yolo(nn.Module):
    """YOLOv8-nano's body and neck; distances are means of distributions (DFL), boxes are decoded inside."""

    def __init__(self, widths=(16, 32, 64, 128, 256), classes=80, bins=16):
        super().__init__()
        silu, (a, b, c, d, e) = nn.SiLU, widths
        self.bins, self.classes = bins, classes
        self.p3 = nn.Sequential(ConvNorm(3, a, 3, 2, act=silu), ConvNorm(a, b, 3, 2, act=silu), CrossStage(b, b, 1), ConvNorm(b, c, 3, 2, act=silu), CrossStage(c, c, 2))
        self.p4, self.p5 = nn.Sequential(ConvNorm(c, d, 3, 2, act=silu), CrossStage(d, d, 2)), nn.Sequential(ConvNorm(d, e, 3, 2, act=silu), CrossStage(e, e, 1), PoolPyramid(e))
        self.up4, self.up3 = CrossStage(d + e, d, 1, False), CrossStage(c + d, c, 1, False)
        self.down3, self.down4 = ConvNorm(c, c, 3, 2, act=silu), CrossStage(c + d, d, 1, False)
        self.boxes = nn.ModuleList(nn.Sequential(ConvNorm(w, 64, 3, act=silu), nn.Conv2d(64, 4 * bins, 1)) for w in (c, d, e))
        self.scores = nn.ModuleList(nn.Sequential(ConvNorm(w, 80, 3, act=silu), nn.Conv2d(80, classes, 1)) for w in (c, d, e))
        self.strides = (8, 16, 32)

    def anchors(self, maps):
        points, strides = [], []
        for y, stride in zip(maps, self.strides):
            h, w = y.shape[2:]
            rows, columns = torch.meshgrid(torch.arange(h, dtype=y.dtype) + 0.5, torch.arange(w, dtype=y.dtype) + 0.5, indexing="ij")
            points.append(torch.stack([columns, rows], -1).view(-1, 2))
            strides.append(torch.full((h * w, 1), stride, dtype=y.dtype))
        return torch.cat(points).t(), torch.cat(strides).t()

    def forward(self, x):
        p3 = self.p3(x)
        p4 = self.p4(p3)
        p5 = self.p5(p4)
        n4 = self.up4(torch.cat([F.interpolate(p5, scale_factor=2.0, mode="nearest"), p4], 1))
        n3 = self.up3(torch.cat([F.interpolate(n4, scale_factor=2.0, mode="nearest"), p3], 1))
        n4 = self.down4(torch.cat([self.down3(n3), n4], 1))
        maps = [n3, n4, p5]
        points, strides = self.anchors(maps)
        count = 4 * self.bins
        y = torch.cat([torch.cat([box(m), score(m)], 1).view(m.shape[0], count + self.classes, -1) for box, score, m in zip(self.boxes, self.scores, maps)], 2)
        boxes, scores = y.split((count, self.classes), 1)
        boxes = boxes.view(boxes.shape[0], 4, self.bins, -1).transpose(2, 1).softmax(1)
        distances = (boxes * torch.arange(self.bins, dtype=x.dtype).view(1, -1, 1, 1)).sum(1)
        near, far = distances.chunk(2, 1)
        low, high = points - near, points + far
        return torch.cat([torch.cat([(low + high) / 2, high - low], 1) * strides, scores.sigmoid()], 1)


@network("yolov8n_decode_ts", "script", 17)
def yolo():
    return Yolo(), {"image": image(320)}


@network("yolov8n_decode_dyn", "dynamo", 18, {"image": {0: "batch"}})
def yolo_dynamic():
    return Yolo(), {"image": image(256, batch=2)}, {"image": image(256, batch=1)}


class Nms(torch.autograd.Function):
    """ONNX's NonMaxSuppression; PyTorch itself has none, and what it computes while exporting only has the right shape."""

    @staticmethod
    def forward(context, boxes, scores, count, overlap, score):
        return torch.zeros(count.item(), 3, dtype=torch.int64)

    @staticmethod
    def symbolic(g, boxes, scores, count, overlap, score):
        return g.op("NonMaxSuppression", boxes, scores, count, overlap, score)


class SingleShot(nn.Module):
    """SSD over two maps: anchors, decoding, NonMaxSuppression, the chosen boxes gathered: as many as there are."""

    def __init__(self, classes=5):
        super().__init__()
        self.classes = classes
        self.first = nn.Sequential(ConvNorm(3, 32, 3, 2), ConvNorm(32, 64, 3, 2), ConvNorm(64, 128, 3, 2), ConvNorm(128, 128, 3, 2))
        self.second = ConvNorm(128, 256, 3, 2)
        self.heads = nn.ModuleList(nn.Conv2d(width, 3 * (4 + classes), 3, padding=1) for width in (128, 256))
        anchors = []
        for cells, size in ((12, 0.2), (6, 0.4)):
            centres = (torch.arange(cells) + 0.5) / cells
            for row in centres:
                for column in centres:
                    anchors += [[row, column, size * aspect, size / aspect] for aspect in (0.7, 1.0, 1.4)]
        self.register_buffer("anchors", torch.tensor(anchors))
        for name, value in (("count", torch.tensor([20])), ("overlap", torch.tensor([0.5])), ("score", torch.tensor([0.3]))):
            self.register_buffer(name, value)

    def forward(self, x):
        first = self.first(x)
        y = [head(m).permute(0, 2, 3, 1).reshape(m.shape[0], -1, 4 + self.classes) for head, m in zip(self.heads, (first, self.second(first)))]
        y = torch.cat(y, 1)
        centre = y[..., :2] * 0.1 * self.anchors[:, 2:] + self.anchors[:, :2]
        size = torch.exp(y[..., 2:4].clamp(-4, 4) * 0.2) * self.anchors[:, 2:]
        boxes = torch.cat([centre - size / 2, centre + size / 2], -1)
        scores = y[..., 4:].softmax(-1)
        chosen = Nms.apply(boxes, scores.transpose(1, 2), self.count, self.overlap, self.score)
        return boxes, scores, boxes[chosen[:, 0], chosen[:, 2]], scores[chosen[:, 0], chosen[:, 2], chosen[:, 1]]


@network("ssd_nms_ts", "script", 17)
def ssd():
    return SingleShot(), {"image": image(192)}


class CenterNet(nn.Module):
    """Peaks of a heat map: a maximum pool that equals its input, TopK, gathers."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(ConvNorm(3, 32, 3, 2), ConvNorm(32, 64, 3, 2), ConvNorm(64, 128, 3, 2), nn.ConvTranspose2d(128, 64, 4, 2, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU())
        self.heat, self.size = (nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, outputs, 1)) for outputs in (10, 4))

    def forward(self, x):
        y = self.body(x)
        heat = self.heat(y).sigmoid()
        heat = heat * (F.max_pool2d(heat, 3, 1, 1) == heat)
        b, c, h, w = heat.shape
        scores, places = torch.topk(heat.view(b, c, -1), 40)
        best, order = torch.topk(scores.view(b, -1), 40)
        classes = torch.div(order, 40, rounding_mode="floor")
        places = torch.gather(places.view(b, -1), 1, order)
        sizes = self.size(y).permute(0, 2, 3, 1).reshape(b, -1, 4)
        sizes = torch.gather(sizes, 1, places.unsqueeze(-1).expand(-1, -1, 4))
        rows, columns = torch.div(places, w, rounding_mode="floor"), places % w
        return torch.stack([columns + sizes[..., 0], rows + sizes[..., 1], sizes[..., 2], sizes[..., 3], best], -1), classes


@network("centernet_ts", "script", 17)
def centernet():
    return CenterNet(), {"image": image(256)}


class Retina(nn.Module):
    """Feature pyramid, towers shared by all levels, GroupNorm (FCOS), TopK of candidates."""

    def __init__(self):
        super().__init__()
        self.c3 = nn.Sequential(ConvNorm(3, 32, 3, 2), ConvNorm(32, 64, 3, 2), ConvNorm(64, 128, 3, 2))
        self.c4, self.c5 = ConvNorm(128, 256, 3, 2), ConvNorm(256, 512, 3, 2)
        self.lateral = nn.ModuleList(nn.Conv2d(width, 128, 1) for width in (128, 256, 512))
        self.smooth = nn.ModuleList(nn.Conv2d(128, 128, 3, padding=1) for _ in range(3))
        self.tower = nn.Sequential(nn.Conv2d(128, 128, 3, padding=1), nn.GroupNorm(32, 128), nn.ReLU(), nn.Conv2d(128, 128, 3, padding=1), nn.GroupNorm(32, 128), nn.ReLU())
        self.score, self.box, self.centre = nn.Conv2d(128, 20, 3, padding=1), nn.Conv2d(128, 4, 3, padding=1), nn.Conv2d(128, 1, 3, padding=1)
        self.scales = nn.Parameter(torch.ones(3))

    def forward(self, x):
        c3 = self.c3(x)
        c4 = self.c4(c3)
        maps = [lateral(y) for lateral, y in zip(self.lateral, (c3, c4, self.c5(c4)))]
        maps[1] = maps[1] + F.interpolate(maps[2], scale_factor=2, mode="nearest")
        maps[0] = maps[0] + F.interpolate(maps[1], scale_factor=2, mode="nearest")
        scores, boxes = [], []
        for level, (smooth, y) in enumerate(zip(self.smooth, maps)):
            y = self.tower(smooth(y))
            score = (self.score(y).sigmoid() * self.centre(y).sigmoid()).sqrt()
            scores.append(score.flatten(2).transpose(1, 2))
            boxes.append((F.relu(self.box(y) * self.scales[level]) * 2 ** (3 + level)).flatten(2).transpose(1, 2))
        scores, boxes = torch.cat(scores, 1), torch.cat(boxes, 1)
        best, places = scores.amax(-1).topk(50, dim=1)
        return best, boxes.gather(1, places[..., None].expand(-1, -1, 4)), scores.gather(1, places[..., None].expand(-1, -1, 20)).argmax(-1)


@network("fcos_fpn_dyn", "dynamo", 18, {"image": {0: "batch"}})
def fcos():
    return Retina(), {"image": image(256, batch=2)}, {"image": image(256, batch=1)}


class Crnn(nn.Module):
    """Reads a line of text: convolutions to height one, two bidirectional LSTMs, the likeliest symbols."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(64, 128, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), ConvNorm(128, 256, 3),
                                  nn.MaxPool2d((2, 1)), ConvNorm(256, 256, 3), nn.MaxPool2d((2, 1)), nn.Conv2d(256, 256, (2, 1)), nn.BatchNorm2d(256), nn.ReLU())
        self.first, self.between, self.second, self.head = nn.LSTM(256, 128, bidirectional=True), nn.Linear(256, 128), nn.LSTM(128, 128, bidirectional=True), nn.Linear(256, 97)

    def forward(self, x):
        x = self.body(x).squeeze(2).permute(2, 0, 1)
        x = self.second(self.between(self.first(x)[0]))[0]
        return self.head(x).log_softmax(-1)


@network("crnn_ocr_ts_dyn", "script", 17, {"image": {3: "width"}})
def crnn():
    return Crnn(), {"image": image(32, 160, channels=1)}, {"image": image(32, 228, channels=1)}


class FaceNet(nn.Module):
    """IR-SE network with PReLU; embeddings of two faces and the cosine between them, ArcFace's logits."""

    class Block(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.body = nn.Sequential(nn.BatchNorm2d(inputs), nn.Conv2d(inputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs), nn.PReLU(outputs),
                                      nn.Conv2d(outputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs))
            self.skip = nn.Identity() if stride == 1 and inputs == outputs else nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

        def forward(self, x):
            return self.body(x) + self.skip(x)

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.PReLU(64), self.Block(64, 64, 2), self.Block(64, 128, 2), self.Block(128, 256, 2), self.Block(256, 256, 2),
                                  nn.BatchNorm2d(256), nn.Flatten(), nn.Linear(256 * 49, 512), nn.BatchNorm1d(512))
        self.classes = nn.Parameter(torch.randn(1000, 512))

    def forward(self, one, other):
        one, other = F.normalize(self.body(one)), F.normalize(self.body(other))
        cosine = F.linear(one, F.normalize(self.classes)).clamp(-0.999, 0.999)
        return one, F.cosine_similarity(one, other), torch.cos(torch.acos(cosine) + 0.5) * 64


@network("arcface_siamese_dyn", "dynamo", 18, {"one": {0: "batch"}, "other": {0: "batch"}})
def arcface():
    faces = lambda batch: {"one": image(112, batch=batch), "other": image(112, batch=batch)}
    return FaceNet(), faces(2), faces(3)


class DeformableDetector(nn.Module):
    """A transformer that samples: queries picked by score from three maps, attention at learned places by grid_sample, boxes refined layer by layer."""

    class Layer(nn.Module):
        def __init__(self, width, heads, points, hidden):
            super().__init__()
            self.heads, self.points = heads, points
            self.own, self.norms = nn.MultiheadAttention(width, heads, batch_first=True), nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
            self.places, self.weights, self.value, self.out = nn.Linear(width, heads * 3 * points * 2), nn.Linear(width, heads * 3 * points), nn.Linear(width, width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, width))

        def sample(self, x, boxes, memory, sizes):
            b, n, c = x.shape
            value = self.value(memory).view(b, -1, self.heads, c // self.heads)
            offsets = self.places(x).view(b, n, self.heads, 3, self.points, 2)
            weights = self.weights(x).view(b, n, self.heads, 3 * self.points).softmax(-1)
            places = boxes[:, :, None, None, None, :2] + offsets * 0.05 * boxes[:, :, None, None, None, 2:]
            grids, found = 2 * places - 1, []
            for level, part in enumerate(value.split([h * w for h, w in sizes], 1)):
                plane = part.flatten(2).transpose(1, 2).reshape(b * self.heads, -1, *sizes[level])
                grid = grids[:, :, :, level].transpose(1, 2).flatten(0, 1)
                found.append(F.grid_sample(plane, grid, align_corners=False))
            weights = weights.transpose(1, 2).reshape(b * self.heads, 1, n, 3 * self.points)
            mixed = (torch.stack(found, -2).flatten(-2) * weights).sum(-1).view(b, c, n)
            return self.out(mixed.transpose(1, 2))

        def forward(self, x, place, boxes, memory, sizes):
            q = x + place
            x = self.norms[0](x + self.own(q, q, x, need_weights=False)[0])
            x = self.norms[1](x + self.sample(x + place, boxes, memory, sizes))
            return self.norms[2](x + self.mlp(x))

    def __init__(self, width=128, classes=20, queries=60):
        super().__init__()
        self.queries = queries
        self.stem = nn.Sequential(ConvNorm(3, 32, 3, 2), ConvNorm(32, 64, 3, 2), ConvNorm(64, 96, 3, 2))
        self.downs, self.inputs = nn.ModuleList((ConvNorm(96, 192, 3, 2), ConvNorm(192, 256, 3, 2))), nn.ModuleList(ConvNorm(a, width, 1, act=None) for a in (96, 192, 256))
        self.memory, self.score, self.box = nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width)), nn.Linear(width, classes), nn.Linear(width, 4)
        self.layers = nn.ModuleList(self.Layer(width, 8, 4, 256) for _ in range(2))
        self.place = nn.Sequential(nn.Linear(4, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))
        self.scores, self.boxes = nn.ModuleList(nn.Linear(width, classes) for _ in range(2)), nn.ModuleList(nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4)) for _ in range(2))

    def forward(self, x):
        maps = [self.stem(x)]
        for down in self.downs:
            maps.append(down(maps[-1]))
        maps = [conv(y) for conv, y in zip(self.inputs, maps)]
        sizes = [tuple(y.shape[2:]) for y in maps]
        memory = self.memory(torch.cat([y.flatten(2).transpose(1, 2) for y in maps], 1))
        anchors = []
        for level, (h, w) in enumerate(sizes):
            rows, columns = torch.meshgrid(torch.arange(h, dtype=x.dtype), torch.arange(w, dtype=x.dtype), indexing="ij")
            centre = (torch.stack([columns, rows], -1) + 0.5) / torch.tensor([w, h], dtype=x.dtype)
            anchors.append(torch.cat([centre, torch.full_like(centre, 0.05 * 2.0 ** level)], -1).view(1, h * w, 4))
        anchors = torch.logit(torch.cat(anchors, 1).clamp(0.01, 0.99))
        best = self.score(memory).max(-1)[0].topk(self.queries, 1)[1][..., None]
        boxes = torch.sigmoid((self.box(memory) + anchors).gather(1, best.expand(-1, -1, 4)))
        y = memory.gather(1, best.expand(-1, -1, memory.shape[-1]))
        for layer, box in zip(self.layers, self.boxes):
            y = layer(y, self.place(boxes), boxes, memory, sizes)
            boxes = torch.sigmoid(box(y) + torch.logit(boxes, eps=1e-5))
        return self.scores[-1](y), boxes


@network("deformable_detector_ts", "script", 17)
def deformable_detector_ts():
    return DeformableDetector(), {"x": image(160, 192)}


@network("deformable_detector_dyn", "dynamo", 20, {"x": {0: "batch"}})
def deformable_detector():
    return DeformableDetector(), {"x": image(160, batch=2)}, {"x": image(160, batch=3)}


class BiFpn(nn.Module):
    """EfficientDet's neck and heads: maps added with weights that are made positive and of sum one, separable convolutions shared by all levels."""

    class Separable(nn.Sequential):
        def __init__(self, width):
            super().__init__(nn.Conv2d(width, width, 3, padding=1, groups=width, bias=False), nn.Conv2d(width, width, 1), nn.BatchNorm2d(width))

    def __init__(self, width=64, classes=20, anchors=9):
        super().__init__()
        act = nn.SiLU
        self.stem = nn.ModuleList((nn.Sequential(ConvNorm(3, 32, 3, 2, act=act), ConvNorm(32, 48, 3, 2, act=act), ConvNorm(48, 64, 3, 2, act=act)), ConvNorm(64, 96, 3, 2, act=act), ConvNorm(96, 160, 3, 2, act=act)))
        self.inputs = nn.ModuleList(ConvNorm(a, width, act=None) for a in (64, 96, 160))
        self.down, self.up = nn.ModuleList(self.Separable(width) for _ in range(2)), nn.ModuleList(self.Separable(width) for _ in range(2))
        self.two, self.three = nn.Parameter(torch.rand(3, 2)), nn.Parameter(torch.rand(1, 3))
        self.tower, self.head = nn.Sequential(self.Separable(width), act(), self.Separable(width), act()), nn.Conv2d(width, anchors * classes, 3, padding=1)
        self.classes = classes

    @staticmethod
    def mix(weights, *maps):
        weights = F.relu(weights)
        weights = weights / (weights.sum() + 1e-4)
        return F.silu(sum(weight * one for weight, one in zip(weights, maps)))

    def forward(self, x):
        maps = []
        for stage in self.stem:
            x = stage(x)
            maps.append(x)
        a, b, c = (conv(y) for conv, y in zip(self.inputs, maps))
        larger = lambda y: F.interpolate(y, scale_factor=2, mode="nearest")
        smaller = lambda y: F.max_pool2d(y, 3, 2, 1)
        middle = self.down[0](self.mix(self.two[0], b, larger(c)))
        a = self.down[1](self.mix(self.two[1], a, larger(middle)))
        b = self.up[0](self.mix(self.three[0], b, middle, smaller(a)))
        c = self.up[1](self.mix(self.two[2], c, smaller(b)))
        scores = [self.head(self.tower(y)).permute(0, 2, 3, 1).reshape(x.shape[0], -1, self.classes) for y in (a, b, c)]
        return torch.sigmoid(torch.cat(scores, 1))


@network("bifpn_dyn", "dynamo", 18, {"x": {0: "batch", 2: "height", 3: "width"}})
def bifpn():
    return BiFpn(), {"x": image(224, 192)}, {"x": image(128, 256, batch=2)}
