#!/usr/bin/env python3
"""A network per operator, type and shape, as folders for bench/peers.py: which of them is slower than another engine's shows at once.

    operator_sweep.py [--out build/sweep] [--random N] [--quantized] [NAME …]
    peers.py build/sweep --threads 1 --engines camshaft,onnxruntime,openvino_f32 --rounds 2 --seconds 0.03

NAME: networks whose name begins so; default: all. --random: N convolutions and products of random extents beside them. --quantized: every
network of floats between QuantizeLinear and DequantizeLinear, weights in int8. Inputs and outputs of the network are row major, so a layer
that is faster channel last pays for two conversions here: look whether that is all before a kernel is to blame.
Values are random, of fixed seeds. Outputs' types are ONNX Runtime's; what it does not run is left out and said. Needs numpy, onnx, onnxruntime."""

import argparse
import math
import pathlib

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

RNG = np.random.default_rng(0)
MICROSOFT, LEARNING = "com.microsoft", "ai.onnx.ml"
OPSETS = {"RMSNormalization": 23, "Swish": 24, "TensorScatter": 24, "CumProd": 26}
BLOCK, IMAGE = (8, 64, 1024), (1, 64, 56, 56)
CASES = {}


def case(name, op, inputs, constants=None, outputs=1, domain="", **attributes):
    """constants: by the input's index; inputs fill the other indices in order."""
    CASES[name] = (op, inputs, constants or {}, outputs, domain, attributes)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def small(*shape):
    return RNG.uniform(-0.9, 0.9, shape).astype(np.float32)


def positive(*shape):
    return RNG.uniform(0.1, 2, shape).astype(np.float32)


def doubles(*shape):
    return np.abs(RNG.standard_normal(shape)) + 0.1


def whole(low, high, *shape, dtype=np.int64):
    return RNG.integers(low, high, shape).astype(dtype)


def codes(*shape):
    return whole(0, 256, *shape, dtype=np.uint8)


def flags(*shape):
    return RNG.integers(0, 2, shape).astype(bool)


def ints(*values):
    return np.array(values, np.int64)


def scales(*values):
    return np.array(values, np.float32)


def pointwise():
    for op in ("Abs Acos Asin Asinh Atan Atanh Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish LeakyRelu Mish Neg Relu Round Selu Shrink Sigmoid "
               "Sign Sin Sinh Softplus Softsign Swish Tan Tanh ThresholdedRelu Identity IsInf IsNaN").split():
        case(op, op, [small(*BLOCK)])
    for op in "Sqrt Reciprocal Log Acosh".split():
        case(op, op, [positive(*BLOCK) + 1])
    for op in "Add Sub Mul Div Max Min Mean Sum Pow PRelu Greater Less Equal GreaterOrEqual".split():
        case(op, op, [positive(*BLOCK), positive(*BLOCK)])
    for op in "Add Mul Sub Div Max Greater".split():
        for what, shape in {"channels": (1, 64, 1, 1), "pixels": (1, 1, 56, 56), "row": (56,), "column": (1, 64, 56, 1)}.items():
            case(f"{op}_{what}", op, [positive(*IMAGE), positive(*shape)])
    case("Add_outer", "Add", [floats(64, 1, 256), floats(1, 64, 256)])
    case("Mod_floats", "Mod", [positive(*BLOCK), positive(*BLOCK)], fmod=1)
    case("Where", "Where", [flags(*BLOCK), floats(*BLOCK), floats(*BLOCK)])
    case("Where_mask", "Where", [flags(1, 1, 1, 196), floats(1, 12, 196, 196), np.float32(-1e9)])
    case("Where_int64", "Where", [flags(*BLOCK), whole(0, 9, *BLOCK), whole(0, 9, *BLOCK)])
    case("Clip", "Clip", [floats(*BLOCK)], {1: np.float32(-1), 2: np.float32(1)})
    for op in "And Or Xor".split():
        case(op, op, [flags(*BLOCK), flags(*BLOCK)])
    case("Not", "Not", [flags(*BLOCK)])


def numbers():
    for op in "Add Sub Mul Div Mod Max Min Greater Equal Pow".split():
        for dtype in (np.int64, np.int32):
            case(f"{op}_{dtype.__name__}", op, [whole(1, 9, *BLOCK, dtype=dtype) for _ in range(2)])
    for op in "Add Sub Mul Div Exp Sqrt Tanh".split():
        count = 1 if op in ("Exp", "Sqrt", "Tanh") else 2
        case(op + "_float64", op, [doubles(*BLOCK) for _ in range(count)])
        case(op + "_float16", op, [doubles(*BLOCK).astype(np.float16) for _ in range(count)])
    for op in "Abs Neg Sign".split():
        case(op + "_int64", op, [whole(-9, 9, *BLOCK)])
    for op in "BitwiseAnd BitwiseOr BitwiseXor".split():
        case(op, op, [whole(0, 99, *BLOCK, dtype=np.int32) for _ in range(2)])
    case("BitShift", "BitShift", [codes(*BLOCK), codes(*BLOCK) % np.uint8(8)], direction="LEFT")
    values = {"float32": floats(*BLOCK) * 9, "int64": whole(0, 9, *BLOCK), "bool": flags(*BLOCK), "float16": floats(*BLOCK).astype(np.float16),
              "uint8": codes(*BLOCK), "float64": doubles(*BLOCK), "int32": whole(0, 9, *BLOCK, dtype=np.int32)}
    for pair in ("float32 int64, int64 float32, float32 bool, bool float32, float32 float16, float16 float32, uint8 float32, float32 uint8, float32 float64, "
                 "float64 float32, int64 int32, int32 float32, bool int64, int64 bool").split(", "):
        source, target = pair.split()
        x = np.abs(values[source]) if target == "uint8" else values[source]
        case(f"Cast_{source}_{target}", "Cast", [x], to=helper.np_dtype_to_tensor_dtype(np.dtype(target)))


def reductions():
    for op in "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare".split():
        for axes in ([2], [0], [1], [0, 2], [1, 2]):
            case(f"Reduce{op}_{''.join(map(str, axes))}", "Reduce" + op, [positive(*BLOCK)], {1: ints(*axes)})
        for what, axes in {"space": [2, 3], "channels": [1], "rows": [3], "all": [0, 1, 2, 3]}.items():
            case(f"Reduce{op}_{what}", "Reduce" + op, [positive(*IMAGE)], {1: ints(*axes)})
    for op in "Max Sum Min Prod Mean".split():
        for axis in (2, 1):
            case(f"Reduce{op}_int64_{axis}", "Reduce" + op, [whole(0, 3, *BLOCK)], {1: ints(axis)})
    for axis in (0, 1, 2):
        case(f"ArgMax_{axis}", "ArgMax", [floats(*BLOCK)], axis=axis)
        case(f"CumSum_{axis}", "CumSum", [floats(*BLOCK)], {1: np.array(axis)})
        for op in "Softmax LogSoftmax Hardmax".split():
            case(f"{op}_{axis}", op, [floats(*BLOCK)], axis=axis)
    case("CumSum_int64", "CumSum", [whole(0, 9, *BLOCK)], {1: np.array(2)})
    case("CumProd", "CumProd", [positive(*BLOCK)], {1: np.array(2)})
    case("Softmax_attention", "Softmax", [floats(12, 196, 196)], axis=-1)
    case("ReduceMax_classes", "ReduceMax", [floats(1, 8400, 80)], {1: ints(2)}, keepdims=0)
    case("ArgMax_classes", "ArgMax", [floats(1, 80, 8400)], axis=1, keepdims=0)


def movement():
    for axis in (0, 1, 2):
        case(f"Concat_{axis}", "Concat", [floats(*BLOCK), floats(*BLOCK)], axis=axis)
        case(f"Split_{axis}", "Split", [floats(*BLOCK)], outputs=2, axis=axis, num_outputs=2)
    for order in ((0, 2, 1), (1, 0, 2), (2, 0, 1), (2, 1, 0), (1, 2, 0)):
        case("Transpose_" + "".join(map(str, order)), "Transpose", [floats(*BLOCK)], perm=order)
    for what, x, order in (("pixels", floats(1, 3, 512, 512), (0, 2, 3, 1)), ("planes", floats(1, 512, 512, 3), (0, 3, 1, 2)), ("bytes", codes(1, 512, 512, 3), (0, 3, 1, 2)),
                           ("heads", floats(1, 197, 12, 64), (0, 2, 1, 3)), ("windows", floats(1, 8, 7, 8, 7, 96), (0, 1, 3, 2, 4, 5)),
                           ("patches", floats(1, 3, 14, 16, 14, 16), (0, 2, 4, 3, 5, 1)), ("matrix", floats(1000, 768), (1, 0)),
                           ("matrix_float16", floats(1000, 768).astype(np.float16), (1, 0)), ("matrix_int64", whole(0, 9, 1000, 768), (1, 0))):
        case("Transpose_" + what, "Transpose", [x], perm=order)
    case("Slice_steps", "Slice", [floats(*BLOCK)], {1: ints(0), 2: ints(1024), 3: ints(2), 4: ints(2)})
    case("Slice_backwards", "Slice", [floats(*BLOCK)], {1: ints(1023), 2: ints(-2000), 3: ints(2), 4: ints(-1)})
    case("Slice_focus", "Slice", [floats(1, 3, 640, 640)], {1: ints(0, 1), 2: ints(640, 640), 3: ints(2, 3), 4: ints(2, 2)})
    for mode in "constant reflect edge wrap".split():
        case("Pad_" + mode, "Pad", [floats(1, 64, 128, 128)], {1: ints(0, 0, 3, 3, 0, 0, 3, 3)}, mode=mode)
    case("Expand_middle", "Expand", [floats(8, 1, 1024)], {1: ints(8, 64, 1024)})
    case("Expand_last", "Expand", [floats(8, 64, 1)], {1: ints(8, 64, 1024)})
    case("Tile", "Tile", [floats(8, 64, 64)], {1: ints(1, 2, 8)})
    for mode in "DCR CRD".split():
        case("DepthToSpace_" + mode, "DepthToSpace", [floats(1, 64, 128, 128)], blocksize=2, mode=mode)
    case("SpaceToDepth", "SpaceToDepth", [floats(1, 16, 256, 256)], blocksize=2)
    case("Trilu", "Trilu", [floats(8, 512, 512)], upper=0)
    case("EyeLike", "EyeLike", [floats(512, 512)])
    case("CenterCropPad", "CenterCropPad", [floats(1, 16, 256, 256)], {1: ints(224, 224)}, axes=[2, 3])
    case("Col2Im", "Col2Im", [floats(1, 64 * 9, 56 * 56)], {1: ints(58, 58), 2: ints(3, 3)})
    for axis in (0, 1):
        case(f"ReverseSequence_{axis}", "ReverseSequence", [floats(8, 100, 256), whole(1, 9, (100, 8)[axis])], batch_axis=1 - axis, time_axis=axis)
    case("TensorScatter", "TensorScatter", [floats(1, 8, 512, 64), floats(1, 8, 1, 64), ints(5)])


def indexed():
    for axis in (0, 1, 2):
        case(f"Gather_{axis}", "Gather", [floats(*BLOCK), whole(0, 8, 32)], axis=axis)
        case(f"GatherElements_{axis}", "GatherElements", [floats(*BLOCK), whole(0, 8, *BLOCK)], axis=axis)
        case(f"ScatterElements_{axis}", "ScatterElements", [floats(*BLOCK), whole(0, 8, 8, 64, 512), floats(8, 64, 512)], axis=axis)
    case("Gather_embedding", "Gather", [whole(0, 30000, 1, 128)], {0: floats(30000, 256)})
    places = np.stack([whole(0, 8, 4096), whole(0, 64, 4096)], 1)
    case("GatherND", "GatherND", [floats(*BLOCK), places])
    case("ScatterND", "ScatterND", [floats(*BLOCK), places[:256], floats(256, 1024)])
    case("ScatterND_add", "ScatterND", [floats(*BLOCK), places[:256], floats(256, 1024)], reduction="add")
    elements = np.stack([whole(0, extent, 65536) for extent in BLOCK], 1)
    case("GatherND_elements", "GatherND", [floats(*BLOCK), elements])
    case("ScatterND_elements", "ScatterND", [floats(*BLOCK), elements, floats(65536)])
    case("Compress", "Compress", [floats(1024, 512), flags(1024)], axis=0)
    case("Compress_elements", "Compress", [floats(512, 1024), flags(512 * 1024)])
    case("NonZero", "NonZero", [flags(512, 512)])
    case("NonZero_few", "NonZero", [RNG.uniform(0, 1, (512, 512)) < 0.02])
    case("Unique", "Unique", [whole(0, 500, 50000)], outputs=4)
    case("OneHot", "OneHot", [whole(0, 256, 2048)], {1: np.array(256), 2: scales(0, 1)})
    for rows, count, k in ((64, 8192, 1), (64, 8192, 5), (1, 84000, 300), (64, 1024, 1024), (4096, 8, 2), (4096, 64, 4), (64, 32000, 50)):
        case(f"TopK_{rows}x{count}_{k}", "TopK", [floats(rows, count)], {1: ints(k)}, outputs=2)
    case("TopK_columns", "TopK", [floats(1, 20, 8400)], {1: ints(1)}, outputs=2, axis=1)
    case("TopK_int64", "TopK", [whole(0, 99999, 64, 1024)], {1: ints(50)}, outputs=2)
    for count, classes in ((1000, 1), (8400, 1), (300, 80)):
        corner = RNG.uniform(0, 600, (count, 2))
        boxes = np.concatenate([corner, corner + RNG.uniform(8, 300, (count, 2))], 1).astype(np.float32)[None]
        case(f"NonMaxSuppression_{count}_{classes}", "NonMaxSuppression", [boxes, RNG.uniform(0, 1, (1, classes, count)).astype(np.float32)],
             {2: np.array([100]), 3: scales(0.5), 4: scales(0.6)})


def sampling():
    for mode, how in (("nearest", "asymmetric"), ("linear", "half_pixel"), ("linear", "align_corners"), ("cubic", "half_pixel")):
        for scale in (2, 0.5, 1.75):
            case(f"Resize_{mode}_{how}_{scale}", "Resize", [floats(1, 32, 96, 96)], {2: scales(1, 1, scale, scale)}, mode=mode, coordinate_transformation_mode=how)
    for mode in ("linear", "cubic"):
        case(f"Resize_antialias_{mode}", "Resize", [floats(1, 3, 512, 512)], {2: scales(1, 1, 0.4, 0.4)}, mode=mode, antialias=1)
    case("Resize_camera", "Resize", [floats(1, 3, 720, 1280)], {3: ints(1, 3, 640, 640)}, mode="linear")
    case("Resize_bytes", "Resize", [codes(1, 3, 256, 256)], {2: scales(1, 1, 2, 2)}, mode="nearest", coordinate_transformation_mode="asymmetric")
    case("Resize_channel_last", "Resize", [floats(1, 96, 96, 32)], {2: scales(1, 2, 2, 1)}, mode="linear")
    case("Resize_1d", "Resize", [floats(1, 64, 4096)], {2: scales(1, 1, 2)}, mode="linear")
    for mode in ("linear", "nearest"):
        case(f"Resize_3d_{mode}", "Resize", [floats(1, 8, 32, 32, 32)], {2: scales(1, 1, 2, 2, 2)}, mode=mode)
    for mode in "nearest linear cubic".split():
        case("GridSample_" + mode, "GridSample", [floats(1, 8, 128, 128), small(1, 128, 128, 2)], mode=mode)
    case("GridSample_reflection", "GridSample", [floats(1, 8, 128, 128), small(1, 128, 128, 2) * 1.5], mode="linear", padding_mode="reflection", align_corners=1)
    case("GridSample_3d", "GridSample", [floats(1, 8, 24, 24, 24), small(1, 24, 24, 24, 3)], mode="linear")
    case("AffineGrid", "AffineGrid", [floats(4, 2, 3)], {1: ints(4, 3, 128, 128)})
    case("AffineGrid_3d", "AffineGrid", [floats(1, 3, 4)], {1: ints(1, 1, 32, 64, 64)})


def normalizations():
    for shape in ((1, 64, 112, 112), (4, 16, 64, 64), (1, 64, 1000), (1, 16, 16, 32, 32)):
        case("InstanceNormalization_" + "x".join(map(str, shape)), "InstanceNormalization", [floats(*shape)], {1: positive(shape[1]), 2: floats(shape[1])})
    for shape in ((8, 128, 768), (1, 56, 56, 96), (8, 20, 80)):
        case("LayerNormalization_" + "x".join(map(str, shape)), "LayerNormalization", [floats(*shape)], {1: positive(shape[-1]), 2: floats(shape[-1])})
    case("LayerNormalization_images", "LayerNormalization", [floats(8, 64, 32, 32)], {1: positive(64, 32, 32), 2: floats(64, 32, 32)}, axis=1)
    case("BatchNormalization", "BatchNormalization", [floats(1, 64, 112, 112)], {1: positive(64), 2: floats(64), 3: floats(64), 4: positive(64)})
    case("GroupNormalization", "GroupNormalization", [floats(1, 64, 112, 112)], {1: positive(64), 2: floats(64)}, num_groups=8)
    case("RMSNormalization", "RMSNormalization", [floats(8, 128, 768)], {1: positive(768)})
    case("MeanVarianceNormalization", "MeanVarianceNormalization", [floats(1, 64, 112, 112)])
    for p in (1, 2):
        case(f"LpNormalization_{p}", "LpNormalization", [floats(*BLOCK)], axis=-1, p=p)


def windows():
    for what, window in {"2x2": dict(kernel_shape=[2, 2], strides=[2, 2]), "3x3": dict(kernel_shape=[3, 3], pads=[1] * 4),
                         "3x3_2": dict(kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4), "9x9": dict(kernel_shape=[9, 9], pads=[4] * 4)}.items():
        case("MaxPool_" + what, "MaxPool", [floats(1, 64, 112, 112)], **window)
        case("AveragePool_" + what, "AveragePool", [floats(1, 64, 112, 112)], **window)
    case("MaxPool_1d", "MaxPool", [floats(1, 64, 4096)], kernel_shape=[3], strides=[2])
    for op in ("MaxPool", "AveragePool"):
        case(op + "_3d", op, [floats(1, 16, 16, 56, 56)], kernel_shape=[2, 2, 2], strides=[2, 2, 2])
    case("MaxPool_indices", "MaxPool", [floats(1, 64, 112, 112)], outputs=2, kernel_shape=[2, 2], strides=[2, 2])
    case("LpPool", "LpPool", [floats(1, 64, 112, 112)], kernel_shape=[3, 3])
    case("GlobalAveragePool", "GlobalAveragePool", [floats(1, 512, 28, 28)])
    case("GlobalMaxPool", "GlobalMaxPool", [floats(1, 512, 28, 28)])
    for what, x, w, attributes in (
            ("1d", (1, 64, 2048), (64, 64, 3), dict(pads=[1, 1])), ("3d", (1, 16, 16, 32, 32), (16, 16, 3, 3, 3), dict(pads=[1] * 6)),
            ("dilated", (1, 64, 56, 56), (64, 64, 3, 3), dict(pads=[4] * 4, dilations=[4, 4])), ("depthwise", (1, 128, 56, 56), (128, 1, 3, 3), dict(pads=[1] * 4, group=128)),
            ("depthwise_7x7", (1, 128, 56, 56), (128, 1, 7, 7), dict(pads=[3] * 4, group=128)), ("multiplier", (1, 64, 56, 56), (128, 1, 3, 3), dict(pads=[1] * 4, group=64)),
            ("groups", (1, 128, 56, 56), (128, 32, 3, 3), dict(pads=[1] * 4, group=4)), ("31x31", (1, 64, 32, 32), (64, 1, 31, 31), dict(pads=[15] * 4, group=64)),
            ("1x7", (1, 64, 56, 56), (64, 64, 1, 7), dict(pads=[0, 3, 0, 3])), ("patches", (1, 3, 224, 224), (96, 3, 4, 4), dict(strides=[4, 4])),
            ("one_channel", (1, 1, 512, 512), (8, 1, 5, 5), dict(pads=[2] * 4))):
        case("Conv_" + what, "Conv", [floats(*x)], {1: floats(*w) * np.float32(0.1)}, **attributes)
    case("Conv_two_inputs", "Conv", [floats(1, 64, 56, 56), floats(64, 64, 3, 3)], pads=[1] * 4)
    for what, x, w, attributes in (
            ("2x2", (1, 64, 56, 56), (64, 32, 2, 2), dict(strides=[2, 2])), ("4x4", (1, 64, 56, 56), (64, 32, 4, 4), dict(strides=[2, 2], pads=[1] * 4)),
            ("depthwise", (1, 64, 56, 56), (64, 1, 4, 4), dict(strides=[2, 2], pads=[1] * 4, group=64)), ("1d", (1, 128, 256), (128, 64, 16), dict(strides=[8], pads=[4, 4])),
            ("3d", (1, 16, 16, 16, 16), (16, 16, 4, 4, 4), dict(strides=[2, 2, 2], pads=[1] * 6)), ("to_one", (1, 64, 80, 80), (64, 1, 4, 4), dict(strides=[2, 2], pads=[1] * 4)),
            ("groups", (1, 64, 28, 28), (64, 16, 4, 4), dict(strides=[2, 2], pads=[1] * 4, group=4)), ("dilated", (1, 64, 28, 28), (64, 32, 3, 3), dict(dilations=[2, 2]))):
        case("ConvTranspose_" + what, "ConvTranspose", [floats(*x)], {1: floats(*w) * np.float32(0.1)}, **attributes)


def products():
    for equation, *shapes in (("bij,bjk->bik", (8, 64, 64), (8, 64, 64)), ("bqhd,bkhd->bhqk", (1, 64, 8, 64), (1, 64, 8, 64)), ("nctv,vw->nctw", (1, 64, 300, 25), (25, 25)),
                              ("nkctv,kvw->nctw", (1, 3, 64, 100, 25), (3, 25, 25)), ("bhwc,hkc->bhwk", (2, 16, 16, 32), (16, 16, 32)), ("i,i->", (4096,), (4096,)),
                              ("abc,abd,ae->cde", (8, 16, 8), (8, 16, 8), (8, 8)), ("i,j->ij", (512,), (512,))):
        case("Einsum_" + equation.replace(",", "_").replace("->", "__"), "Einsum", [floats(*shape) for shape in shapes], equation=equation)
    case("MatMul_row", "MatMul", [floats(1, 768)], {1: floats(768, 768)})
    for what, a, b in (("two_inputs", (12, 128, 64), (12, 64, 128)), ("matrix_vector", (512, 512), (512,)), ("vector_matrix", (512,), (512, 512)), ("odd", (37, 53), (53, 29)),
                       ("tiny", (4096, 3, 3), (4096, 3, 1)), ("small", (1024, 4, 4), (1024, 4, 4))):
        case("MatMul_" + what, "MatMul", [floats(*a), floats(*b)])
    case("MatMul_float64", "MatMul", [doubles(128, 256), doubles(256, 128)])
    case("MatMul_int32", "MatMul", [whole(0, 9, 128, 256, dtype=np.int32), whole(0, 9, 256, 128, dtype=np.int32)])
    case("Gemm_float64", "Gemm", [doubles(128, 256), doubles(256, 128)])
    case("Gemm_transposed", "Gemm", [floats(256, 128), floats(256, 128)], transA=1)
    case("Det", "Det", [floats(256, 8, 8)])
    for op, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
        for steps, batch, size, hidden in ((64, 4, 128, 128), (1, 1, 64, 64), (100, 1, 80, 256)):
            weights = {1: floats(1, gates * hidden, size) * np.float32(0.1), 2: floats(1, gates * hidden, hidden) * np.float32(0.1), 3: floats(1, 2 * gates * hidden)}
            more = {"linear_before_reset": 1} if op == "GRU" else {}
            case(f"{op}_{steps}_{batch}_{hidden}", op, [floats(steps, batch, size)], weights, hidden_size=hidden, **more)
    case("RNN_relu", "RNN", [floats(64, 4, 128)], {1: floats(1, 128, 128) * np.float32(0.1), 2: floats(1, 128, 128) * np.float32(0.1)}, hidden_size=128, activations=["Relu"])
    lstm = {1: floats(1, 512, 128) * np.float32(0.1), 2: floats(1, 512, 128) * np.float32(0.1)}
    case("LSTM_activations", "LSTM", [floats(64, 4, 128)], lstm, hidden_size=128, activations=["HardSigmoid", "Tanh", "Softsign"])
    case("LSTM_peepholes", "LSTM", [floats(64, 1, 128)], {**lstm, 3: floats(1, 1024), 7: floats(1, 384)}, hidden_size=128)


def quantized():
    step, middle = np.float32(0.02), np.uint8(128)
    case("QuantizeLinear", "QuantizeLinear", [floats(*BLOCK)], {1: step, 2: middle})
    case("DequantizeLinear", "DequantizeLinear", [codes(*BLOCK)], {1: step, 2: middle})
    case("QuantizeLinear_channels", "QuantizeLinear", [floats(*BLOCK)], {1: positive(64) * step, 2: np.zeros(64, np.int8)}, axis=1)
    case("QuantizeLinear_blocks", "QuantizeLinear", [floats(512, 1024)], {1: positive(512, 32) * step, 2: np.zeros((512, 32), np.int8)}, axis=1, block_size=32)
    case("DequantizeLinear_int32", "DequantizeLinear", [whole(-999, 999, *BLOCK, dtype=np.int32)], {1: step})
    case("DynamicQuantizeLinear", "DynamicQuantizeLinear", [floats(128, 768)], outputs=3)
    weights = whole(-127, 128, 768, 768, dtype=np.int8)
    case("MatMulInteger", "MatMulInteger", [codes(128, 768)], {1: weights, 2: np.uint8(120)})
    case("MatMulInteger_two_inputs", "MatMulInteger", [codes(12, 128, 64), codes(12, 64, 128)])
    case("ConvInteger", "ConvInteger", [codes(1, 64, 56, 56)], {1: weights[:64, :576].reshape(64, 64, 3, 3)}, pads=[1] * 4)
    grids = {1: step, 2: middle, 4: step, 5: np.int8(0), 6: step, 7: middle}
    case("QLinearConv", "QLinearConv", [codes(1, 64, 56, 56)], {**grids, 3: weights[:64, :576].reshape(64, 64, 3, 3)}, pads=[1] * 4)
    case("QLinearMatMul", "QLinearMatMul", [codes(128, 768)], {**grids, 3: weights})
    case("QLinearAdd", "QLinearAdd", [codes(*BLOCK)], {1: step, 2: middle, 3: codes(*BLOCK), 4: step, 5: middle, 6: step, 7: middle}, domain=MICROSOFT)
    one = {1: step, 2: middle, 3: step, 4: middle}
    case("QLinearSigmoid", "QLinearSigmoid", [codes(*BLOCK)], one, domain=MICROSOFT)
    case("QLinearAveragePool", "QLinearAveragePool", [codes(1, 64, 112, 112)], one, domain=MICROSOFT, kernel_shape=[3, 3])
    case("QLinearSoftmax", "QLinearSoftmax", [codes(*BLOCK)], {1: step, 2: middle, 3: np.float32(1 / 256), 4: np.uint8(0)}, domain=MICROSOFT, opset=13, axis=-1)


def others():
    for count in (1024, 1000, 509):
        case(f"DFT_{count}", "DFT", [floats(64, count, 1)], onesided=1)
    case("DFT_complex", "DFT", [floats(16, 2048, 2)])
    case("DFT_inverse", "DFT", [floats(64, 1024, 2)], inverse=1)
    case("FusedMatMul", "FusedMatMul", [floats(128, 768)], {1: floats(768, 768)}, domain=MICROSOFT, transB=1, alpha=0.5)
    case("BiasGelu", "BiasGelu", [floats(128, 3072)], {1: floats(3072)}, domain=MICROSOFT)
    case("SkipLayerNormalization", "SkipLayerNormalization", [floats(1, 128, 768), floats(1, 128, 768)], {2: positive(768), 3: floats(768)}, domain=MICROSOFT)
    case("CDist", "CDist", [floats(256, 64), floats(512, 64)], domain=MICROSOFT, metric="sqeuclidean")
    case("SoftmaxCrossEntropyLoss", "SoftmaxCrossEntropyLoss", [floats(1, 21, 128, 128), whole(0, 21, 1, 128, 128)])
    case("TfIdfVectorizer", "TfIdfVectorizer", [whole(0, 10, 64, 100)], mode="TF", min_gram_length=1, max_gram_length=2, max_skip_count=0, ngram_counts=[0, 4],
         ngram_indexes=[0, 1, 2, 3, 4, 5], pool_int64s=[2, 3, 5, 4, 5, 6, 7, 8])
    rows = floats(1000, 100)
    case("Normalizer", "Normalizer", [rows], domain=LEARNING, norm="L2")
    case("Scaler", "Scaler", [rows], domain=LEARNING, offset=[0.5] * 100, scale=[2.0] * 100)
    case("LinearClassifier", "LinearClassifier", [rows], outputs=2, domain=LEARNING, coefficients=floats(300).tolist(), intercepts=[0.0] * 3, classlabels_ints=[0, 1, 2],
         post_transform="SOFTMAX")
    case("LabelEncoder", "LabelEncoder", [whole(0, 100, 10000)], domain=LEARNING, keys_int64s=list(range(100)), values_floats=[float(k) for k in range(100)])
    case("OneHotEncoder", "OneHotEncoder", [whole(0, 50, 10000)], domain=LEARNING, cats_int64s=list(range(50)))
    case("SVMRegressor", "SVMRegressor", [floats(200, 50)], domain=LEARNING, kernel_type="RBF", kernel_params=[0.1, 0.0, 3.0], n_supports=200,
         support_vectors=floats(200 * 50).tolist(), coefficients=floats(200).tolist(), rho=[0.1])


def pick(rng, *values):
    return values[rng.integers(len(values))]


def random_case(rng):
    """A convolution, a transposed one or a product whose extents are drawn; None: too large."""
    kind, batch = pick(rng, "plain", "1x1", "groups", "depthwise", "1d", "3d", "transposed", "product"), pick(rng, 1, 1, 1, 2, 8)
    if kind == "product":
        m, k, n = pick(rng, 1, 2, 7, 16, 50, 197, 512), pick(rng, 32, 64, 100, 300, 768, 2048), pick(rng, 1, 2, 10, 64, 100, 768, 1000, 3072)
        case(f"product_{batch}x{m}x{k}x{n}", "MatMul", [floats(batch, m, k)], {1: floats(k, n) * np.float32(0.1)})
        return
    rank = {"1d": 1, "3d": 3}.get(kind, 2)
    size = [pick(rng, 7, 13, 20, 28, 40, 56, 80) * (16 if rank == 1 else 1)] * rank if rank < 3 else [pick(rng, 4, 8, 16), 28, 28]
    kernel = [1 if kind == "1x1" else pick(rng, 2, 3, 3, 5, 7)] * rank if rank < 3 else list(pick(rng, (3, 3, 3), (1, 3, 3), (3, 1, 1), (2, 2, 2)))
    stride, dilation = [pick(rng, 1, 1, 2)] * rank, [1 if rank == 3 or kind == "transposed" else pick(rng, 1, 1, 1, 2)] * rank
    groups = pick(rng, 2, 4, 8, 32) if kind == "groups" else 1
    channels = groups * pick(rng, 4, 8, 16) if kind == "groups" else pick(rng, 1, 3, 16, 24, 40, 64, 96, 144, 256)
    if kind == "depthwise":
        groups = channels
    outputs = channels * pick(rng, 1, 1, 1, 2) if kind in ("groups", "depthwise") else pick(rng, 1, 3, 16, 24, 48, 64, 128, 256)
    pads = [] if kernel[0] == 2 else [(k - 1) * d // 2 for k, d in zip(kernel, dilation)] * 2
    if batch * channels // groups * outputs * math.prod(kernel) * math.prod(size) > 1.5e9:
        return
    transposed = kind == "transposed"
    shape = (channels, outputs) if transposed else (outputs, channels // groups)
    name = f"{kind}_{batch}x{channels}x{'x'.join(map(str, size))}_to{outputs}_k{'x'.join(map(str, kernel))}_s{stride[0]}_d{dilation[0]}_g{groups}"
    case(name, "ConvTranspose" if transposed else "Conv", [floats(batch, channels, *size)], {1: floats(*shape, *kernel) * np.float32(0.1), 2: floats(outputs)},
         strides=stride, dilations=dilation, group=int(groups), **({"pads": pads} if pads else {}))


GROUPS = [pointwise, numbers, reductions, movement, indexed, sampling, normalizations, windows, products, quantized, others]


def build(name):
    """The model and its feeds; outputs are declared as ONNX Runtime gives them."""
    op, inputs, constants, outputs, domain, attributes = CASES[name]
    waiting = iter(inputs)
    names, feeds = [], {}
    for k in range(max(len(inputs) + len(constants), max(constants, default=-1) + 1)):
        value = None if k in constants else next(waiting, None)
        if value is not None:
            feeds[f"x{k}"] = np.asarray(value)
        names.append(f"c{k}" if k in constants else f"x{k}" if value is not None else "")
    given = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for n, x in feeds.items()]
    results = [f"y{k}" for k in range(outputs)]
    graph = helper.make_graph([helper.make_node(op, names, results, domain=domain, **attributes)], name, given, [helper.make_empty_tensor_value_info(y) for y in results],
                              [numpy_helper.from_array(np.asarray(x), f"c{k}") for k, x in constants.items()])
    versions = {"": OPSETS.get(op, 22)} | {MICROSOFT: {MICROSOFT: 1}, LEARNING: {LEARNING: 3}}.get(domain, {})
    opsets = [helper.make_opsetid(*version) for version in versions.items()]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    values = run(model, feeds)
    del model.graph.output[:]
    for y, value in zip(results, values):
        value = np.asarray(value)
        known = op not in ("NonZero", "Unique", "NonMaxSuppression", "Compress")
        model.graph.output.append(helper.make_tensor_value_info(y, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape if known else [None] * value.ndim))
    return model, feeds, values


def run(model, feeds):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, feeds)


def between_codes(model, feeds, values):
    """The same network with Q/DQ around every tensor of floats; None: it has none, or nothing is to be quantized."""
    if any(x.dtype != np.float32 for x in feeds.values()) or any(np.asarray(y).dtype != np.float32 for y in values):
        return None
    node, constants, nodes = model.graph.node[0], {c.name: c for c in model.graph.initializer}, []

    def through_codes(name, x):
        low, high = min(float(np.min(x)), 0), max(float(np.max(x)), 0)
        step = max((high - low) / 255, 1e-8)
        model.graph.initializer.extend([numpy_helper.from_array(np.float32(step), name + "_scale"), numpy_helper.from_array(np.uint8(np.clip(round(-low / step), 0, 255)), name + "_zero")])
        grid = [name + "_scale", name + "_zero"]
        nodes.append(helper.make_node("QuantizeLinear", [name, *grid], [name + "_codes"]))
        nodes.append(helper.make_node("DequantizeLinear", [name + "_codes", *grid], [name + "_quantized"]))
        return name + "_quantized"

    inputs = [through_codes(x, feeds[x]) if x in feeds else x for x in node.input]
    if node.op_type in ("Conv", "ConvTranspose", "MatMul") and node.input[1] in constants:
        weights = numpy_helper.to_array(constants[node.input[1]])
        step = np.float32(np.abs(weights).max() / 127)
        model.graph.initializer.extend([numpy_helper.from_array(np.round(weights / step).astype(np.int8), "w_codes"), numpy_helper.from_array(step, "w_scale")])
        nodes.append(helper.make_node("DequantizeLinear", ["w_codes", "w_scale"], ["w_quantized"]))
        inputs[1] = "w_quantized"
    outputs = list(node.output)
    del node.input[:], node.output[:]
    node.input.extend(inputs)
    node.output.extend(y + "_float" for y in outputs)
    nodes.append(node)
    ends = [through_codes(y + "_float", value) for y, value in zip(outputs, values)]
    for end, info in zip(ends, model.graph.output):
        info.name = end
    made = helper.make_graph(nodes, model.graph.name, model.graph.input, model.graph.output, model.graph.initializer)
    return helper.make_model(made, opset_imports=model.opset_import, ir_version=10)


def write(name, folder, quantize):
    model, feeds, values = build(name)
    if quantize:
        model = between_codes(model, feeds, values)
        if model is None:
            return False
        values = run(model, feeds)
    data = folder / name / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    onnx.save(model, str(folder / name / "model.onnx"))
    for kind, tensors in (("input", feeds.items()), ("output", zip((y.name for y in model.graph.output), values))):
        for k, (n, x) in enumerate(tensors):
            (data / f"{kind}_{k}.pb").write_bytes(numpy_helper.from_array(np.asarray(x), n).SerializeToString())
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/sweep"))
    parser.add_argument("--random", type=int, default=0, metavar="N", help="so many convolutions and products of random extents, too")
    parser.add_argument("--seed", type=int, default=0, help="of those")
    parser.add_argument("--quantized", action="store_true", help="networks of floats between Q and DQ alone")
    parser.add_argument("names", nargs="*", metavar="NAME")
    a = parser.parse_args()
    for group in GROUPS:
        group()
    rng = np.random.default_rng(a.seed)
    for _ in range(a.random):
        random_case(rng)
    wanted = [name for name in CASES if not a.names or name.startswith(tuple(a.names))]
    if not wanted:
        parser.error(f"no network begins with {' or '.join(a.names)}")
    written = 0
    for name in wanted:
        try:
            written += write(name, a.out, a.quantized)
        except Exception as error:  # of ONNX Runtime, whose types have no public names
            print(f"{name}: left out, ONNX Runtime does not run it: {str(error).splitlines()[0][:120]}")
    print(f"{written} of {len(wanted)} networks in {a.out}")


if __name__ == "__main__":
    main()
