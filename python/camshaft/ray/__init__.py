# SPDX-License-Identifier: Apache-2.0
"""Engines in a Ray cluster: batch inference over datasets, and a deployment of Ray Serve.

>>> engine = camshaft.ray.build("model.onnx", num_cpus=2, max_batch_size=64)      # on one node, once; shipped through the object store
>>> dataset.map_batches(camshaft.ray.Predictor, fn_constructor_args=[engine], num_cpus=2, concurrency=4, batch_size=64)
>>> handle = serve.run(camshaft.ray.deployment(engine, latency_goal_ms=20, num_replicas=2, num_cpus=2))

Needs Ray (``pip install camshaft[ray]``).
"""
from .data import Predictor
from .deployment import deployment
from .shipping import SharedEngine, build, ship

__all__ = ["Predictor", "SharedEngine", "build", "deployment", "ship"]
