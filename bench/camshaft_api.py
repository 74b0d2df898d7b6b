"""Camshaft through its C API, as much of it as benchmarks need."""

import ctypes
import json
import os
import pathlib

import numpy as np

MAX_RANK = 8
ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("CAMSHAFT_BUILD", ROOT / "build" / "release"))
TYPES = {1: np.float32, 2: np.float16, 4: np.float64, 5: np.int8, 6: np.uint8, 7: np.int16, 8: np.uint16, 9: np.int32,
         10: np.uint32, 11: np.int64, 12: np.uint64, 13: np.bool_}


class ShapeRange(ctypes.Structure):
    _fields_ = [("input", ctypes.c_char_p), ("rank", ctypes.c_int32), ("min", ctypes.c_int64 * MAX_RANK),
                ("opt", ctypes.c_int64 * MAX_RANK), ("max", ctypes.c_int64 * MAX_RANK)]


class BuildOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("threads", ctypes.c_int32), ("optimization_level", ctypes.c_int32),
                ("avg_timing", ctypes.c_int32), ("max_tactics", ctypes.c_int32), ("timing_cache_file", ctypes.c_char_p),
                ("shapes", ctypes.POINTER(ShapeRange)), ("shape_count", ctypes.c_size_t), ("progress", ctypes.c_void_p),
                ("user", ctypes.c_void_p), ("int8", ctypes.c_int32), ("calibration_cache_file", ctypes.c_char_p),
                ("allow_bf16", ctypes.c_int32), ("allow_fp16", ctypes.c_int32),
                ("shape_profiles", ctypes.c_void_p), ("layer_precisions", ctypes.c_void_p), ("layer_precision_count", ctypes.c_size_t),
                ("layer_output_types", ctypes.c_void_p), ("layer_output_type_count", ctypes.c_size_t),
                ("precision_constraints", ctypes.c_int32), ("strongly_typed", ctypes.c_int32), ("portable", ctypes.c_int32),
                ("sparsity", ctypes.c_int32),
                ("later", ctypes.c_int64 * 16)]  # init writes the whole structure of its library, whatever that has grown to


LAYER_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_int32, ctypes.c_char_p, ctypes.c_double, ctypes.c_void_p)


class TensorInfo(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("type", ctypes.c_int), ("rank", ctypes.c_int32), ("dims", ctypes.c_int64 * MAX_RANK)]


library = ctypes.CDLL(str(BUILD / "lib" / "libcamshaft.so"))
library.camshaft_last_error.restype = ctypes.c_char_p
library.camshaft_engine_input_count.restype = library.camshaft_engine_output_count.restype = ctypes.c_size_t


def check(status):
    if status:
        raise RuntimeError(library.camshaft_last_error().decode())


def probe(name, *arguments):
    function = getattr(ctypes.CDLL(str(BUILD / "lib" / "libcamshaft_bench.so")), f"camshaft_bench_{name}")
    function.restype = ctypes.c_double
    return function(*arguments)


def fma_peak():
    """1e9 MAC/s of one thread, measured now."""
    return probe("fma_peak")


def byte_peak():
    """The same of products of bytes."""
    return probe("byte_peak")


def read_bandwidth(size):
    """1e9 B/s at which one thread reads `size` bytes again and again."""
    return probe("read_bandwidth", ctypes.c_size_t(size))


class Context:
    """Builds `path` for the shapes of `inputs` (name -> array) and holds them bound; run() computes once."""

    def __init__(self, path, inputs, threads, level=3, timing_cache="", bf16=False, fp16=False, sparsity=0):
        options = BuildOptions()
        library.camshaft_build_options_init(ctypes.byref(options), ctypes.c_size_t(ctypes.sizeof(options)))
        options.threads, options.optimization_level = threads, level
        options.allow_bf16, options.allow_fp16, options.sparsity = bf16, fp16, sparsity
        options.timing_cache_file = timing_cache.encode() or None
        ranges = (ShapeRange * len(inputs))()
        for item, (name, array) in zip(ranges, inputs.items()):
            item.input, item.rank = name.encode(), array.ndim
            for extents in (item.min, item.opt, item.max):
                extents[:array.ndim] = array.shape
        options.shapes, options.shape_count = ranges, len(inputs)
        self.engine, self.context = ctypes.c_void_p(), ctypes.c_void_p()
        check(library.camshaft_build_file(str(path).encode(), ctypes.byref(options), ctypes.byref(self.engine)))
        check(library.camshaft_context_create(self.engine, threads, 0, ctypes.byref(self.context)))
        self.arrays = {name: np.ascontiguousarray(array) for name, array in inputs.items()}
        for name, array in self.arrays.items():
            dims = (ctypes.c_int64 * MAX_RANK)(*array.shape)
            check(library.camshaft_context_set_shape(self.context, name.encode(), dims, inputs[name].ndim))
            check(library.camshaft_context_set_input(self.context, name.encode(), ctypes.c_void_p(array.ctypes.data),
                                                     ctypes.c_size_t(array.nbytes)))
        self.names = []
        for index in range(library.camshaft_engine_output_count(self.engine)):
            info = TensorInfo()
            check(library.camshaft_engine_output(self.engine, ctypes.c_size_t(index), ctypes.byref(info)))
            self.names.append(info.name)

    def run(self):
        check(library.camshaft_context_run(self.context))

    def layers(self):
        """Layer information, the schema of trtexec's --exportLayerInfo."""
        text = ctypes.c_char_p()
        check(library.camshaft_engine_layers_json(self.engine, ctypes.byref(text)))
        layers = json.loads(text.value)["Layers"]
        library.camshaft_free(text)
        return layers

    def layer_times(self):
        """Runs once: name -> microseconds."""
        times = {}
        callback = LAYER_CALLBACK(lambda index, name, us, user: times.update({name.decode(): times.get(name.decode(), 0) + us}))
        check(library.camshaft_context_set_profiler(self.context, callback, None))
        self.run()
        check(library.camshaft_context_set_profiler(self.context, LAYER_CALLBACK(), None))
        return times

    def outputs(self):
        arrays = []
        for name in self.names:
            data, info = ctypes.c_void_p(), TensorInfo()
            check(library.camshaft_context_output(self.context, name, ctypes.byref(data), ctypes.byref(info)))
            shape, kind = list(info.dims[:info.rank]), np.dtype(TYPES[info.type])
            size = int(np.prod(shape)) * kind.itemsize
            arrays.append(np.frombuffer(ctypes.string_at(data, size), kind).reshape(shape).copy())
        return arrays

    def __del__(self):
        library.camshaft_context_destroy(self.context)
        library.camshaft_engine_destroy(self.engine)
