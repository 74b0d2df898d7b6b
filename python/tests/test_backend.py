# SPDX-License-Identifier: Apache-2.0
"""ONNX's own runner over its operator tests and small networks, through camshaft.backend. docs/conformance.md has the counts."""
import re
import unittest
import warnings

import numpy as np
import onnx
import pytest
from onnx import helper

import camshaft
import camshaft.backend

# What may fail, by the error's text: element types, kinds of values and operators this version does not have.
MISSING = re.compile(r"element type (STRING|FLOAT8\w*|FLOAT4\w*|U?INT2|COMPLEX\w*|UNDEFINED)|sequences and optionals|is a (sequence|optional|map)"
                     r"|compressed images|strings are not supported|no initializer of its own|operator Gradient|ai\.onnx\.preview"
                     r"|only running tells goes into a Split|graphs? as attribute"
                     r"|Resize.*run time|keep_aspect_ratio|opset 8|only while running|before it runs")
# Random values, stored results with the noise of single precision where the exact one is 0, and sequences, which leave a network as tensors.
DIFFERENT = re.compile(r"test_bernoulli|test_dft_inverse|test_training_dropout|test_if_seq|test_split_to_sequence")
LEAST = {"OnnxBackendNodeModelTest": 1650, "OnnxBackendPyTorchConvertedModelTest": 82, "OnnxBackendPyTorchOperatorModelTest": 35,
         "OnnxBackendSimpleModelTest": 7}


class Untimed(camshaft.backend.CamshaftBackend):
    """Engines of the first legal tactics: what is compared are results."""

    @classmethod
    def prepare(cls, model, device="CPU", **options):
        return super().prepare(model, device, optimization_level=0)


def cases():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import onnx.backend.test
        return onnx.backend.test.BackendTest(Untimed, __name__).test_cases


@pytest.mark.filterwarnings("ignore")
def test_onnx_runner():
    unexpected, counts = [], {}
    for suite, case in cases().items():
        if suite not in LEAST:
            continue  # networks that would have to be fetched
        result = unittest.TestResult()
        unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
        bad = [(test.id().rsplit(".", 1)[-1], text) for test, text in result.failures + result.errors]
        unexpected += [f"{name}: {text.strip().splitlines()[-1]}" for name, text in bad if not MISSING.search(text) and not DIFFERENT.match(name)]
        counts[suite] = result.testsRun - len(result.skipped) - len(bad)
    print(counts)
    assert not unexpected, "\n".join(unexpected)
    if onnx.__version__.startswith("1.23."):
        assert all(counts[suite] >= least for suite, least in LEAST.items()), counts


def test_the_interface_of_backends():
    node = helper.make_node("Add", ["a", "b"], ["sum"])
    a, b = np.ones((2, 3), "f"), np.arange(3, dtype="f")
    outputs = camshaft.backend.run_node(node, [a, b])
    np.testing.assert_array_equal(outputs.sum, a + b)
    assert camshaft.backend.supports_device("CPU") and not camshaft.backend.supports_device("CUDA")
