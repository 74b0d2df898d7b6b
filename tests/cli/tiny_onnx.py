# SPDX-License-Identifier: Apache-2.0
"""Writes small ONNX files without the onnx package: just enough of the protobuf wire format."""
import struct

FLOAT, INT64 = 1, 7


def varint(value):
    value &= (1 << 64) - 1
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    return varint(number << 3) + varint(value)


def tensor(name, array, dtype=FLOAT):
    """A TensorProto of a numpy array."""
    out = b"".join(field(1, extent) for extent in array.shape)
    return out + field(2, dtype) + field(8, name) + field(9, array.tobytes())


def value_info(name, dims, dtype=FLOAT):
    shape = b""
    for dim in dims:
        shape += field(1, field(2, dim) if isinstance(dim, str) else field(1, dim))
    return field(1, name) + field(2, field(1, field(1, dtype) + field(2, shape)))


def ints_attribute(name, values):
    return field(1, name) + b"".join(field(8, v) for v in values) + field(20, 7)


def int_attribute(name, value):
    return field(1, name) + field(3, value) + field(20, 2)


def float_attribute(name, value):
    return field(1, name) + varint(2 << 3 | 5) + struct.pack("<f", value) + field(20, 1)


def node(op, inputs, outputs, name, attributes=()):
    out = b"".join(field(1, i) for i in inputs) + b"".join(field(2, o) for o in outputs)
    out += field(3, name) + field(4, op)
    return out + b"".join(field(5, a) for a in attributes)


def model(nodes, inputs, outputs, initializers=(), opset=13, name="tiny"):
    graph = b"".join(field(1, n) for n in nodes) + field(2, name)
    graph += b"".join(field(5, t) for t in initializers)
    graph += b"".join(field(11, i) for i in inputs) + b"".join(field(12, o) for o in outputs)
    return field(1, 8) + field(2, "tiny_onnx") + field(7, graph) + field(8, field(2, opset))
