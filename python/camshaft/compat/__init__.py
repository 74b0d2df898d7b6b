# SPDX-License-Identifier: Apache-2.0
"""Other engines' Python interfaces over Camshaft: ``import camshaft.compat.tensorrt as trt``."""
