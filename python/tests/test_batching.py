# SPDX-License-Identifier: Apache-2.0
"""Batches of requests in one event loop, and engines over memory that is not theirs."""
import asyncio
import gc
import sys

import numpy as np
import pytest

import camshaft
from camshaft import open_inference
from camshaft.batching import Batcher, Overloaded, batch_profiles, largest_batch

from conftest import identity


@pytest.fixture
def engine(matmul):
    proto, _ = matmul
    return camshaft.build(proto, profiles=batch_profiles(proto, 16), optimization_level=0)


def requests(count, rows=1, seed=5):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((rows, 16)).astype("f") for _ in range(count)]


def test_every_caller_gets_its_own_rows(engine, matmul):
    _, weights = matmul
    xs = [x for rows in (1, 2, 5, 16) for x in requests(25, rows)]

    async def all_of_them():
        batcher = Batcher(engine, measure_ms=50)
        answers = await asyncio.gather(*(batcher.run({"x": x}) for x in xs))
        await batcher.close()
        return batcher, answers

    batcher, answers = asyncio.run(all_of_them())
    for x, answer in zip(xs, answers):
        np.testing.assert_allclose(answer["y"], x @ weights, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(answer["z"], abs(x))
    records = batcher.batches(1000)
    assert sum(record.requests for record in records) == len(xs)
    assert sum(record.rows for record in records) == sum(len(x) for x in xs)
    assert all(record.rows <= record.size <= 16 and record.why for record in records)
    assert len(records) < len(xs) and batcher.waiting == 0
    assert sorted(batcher.times_ms()) == [1, 2, 3, 4, 6, 8, 12, 16] and all(ms > 0 for ms in batcher.times_ms().values())


def test_a_goal_bounds_batches_and_lets_a_context_wait(engine):
    async def asked():
        batcher = Batcher(engine, latency_goal_ms=1e-6, measure_ms=20)  # not even two of the smallest fit
        await asyncio.gather(*(batcher.run({"x": x}) for x in requests(30)))
        await batcher.close()
        return batcher.batches(100)

    assert [record.size for record in asyncio.run(asked())] == [1] * 30


def test_shapes_that_differ_are_no_batch():
    proto = identity(1, ("n", "m"))
    shapes = [{"x": ([1, 1], [rows, 4], [8, 64])} for rows in (1, 8)]
    engine = camshaft.build(proto, profiles=shapes, optimization_level=0)
    assert largest_batch(engine) == 8

    async def asked():
        batcher = Batcher(engine, measure_ms=20)
        xs = [np.full((1, 1 + k % 3), k, "f") for k in range(60)]
        answers = await asyncio.gather(*(batcher.run({"x": x}) for x in xs))
        await batcher.close()
        return xs, answers

    for x, answer in zip(*asyncio.run(asked())):
        np.testing.assert_array_equal(answer["y"], x)


def test_a_network_without_a_batch_runs_one_at_a_time(conv, image):
    assert batch_profiles(conv, 8) is None
    engine = camshaft.build(conv, optimization_level=0)
    assert largest_batch(engine) == 0

    async def asked():
        batcher = Batcher(engine, contexts=2, measure_ms=20)
        answers = await asyncio.gather(*(batcher.run({"x": image * k}) for k in range(10)))
        await batcher.close()
        return answers

    session = engine.session()
    for k, answer in enumerate(asyncio.run(asked())):
        np.testing.assert_array_equal(answer["y"], session.run({"x": image * k})[0])


def test_bad_requests_and_full_queues(engine):
    async def asked():
        batcher = Batcher(engine, queue_size=4, measure_ms=20)
        for feed, said in (({"x": np.zeros((1, 16))}, "float64"), ({"x": np.zeros((1, 15), "f")}, None), ({"y": 1}, "no input 'y'"),
                           ({}, "missing"), ({"x": np.zeros((17, 16), "f")}, "17 rows"), ({"x": np.zeros((0, 16), "f")}, "0 rows"),
                           ({"x": np.zeros(16, "f")}, "dimensions")):
            with pytest.raises(camshaft.InvalidArgument, match=said):
                await batcher.run(feed)
        # One request's data do not spoil others, and only so many wait.
        x = np.ones((1, 16), "f")
        answers = await asyncio.gather(*(batcher.run({"x": x}) for _ in range(6)), return_exceptions=True)
        assert [isinstance(answer, Overloaded) for answer in answers] == [False] * 4 + [True] * 2
        mixed = await asyncio.gather(batcher.run({"x": x}), batcher.run({"x": np.zeros((1, 15), "f")}), batcher.run({"x": x}),
                                     return_exceptions=True)
        assert [isinstance(answer, camshaft.InvalidArgument) for answer in mixed] == [False, True, False]
        # Who has gone costs nothing and disturbs nobody.
        gone = asyncio.ensure_future(batcher.run({"x": x}))
        await asyncio.sleep(0)
        gone.cancel()
        assert "y" in await batcher.run({"x": x})
        await batcher.close()

    asyncio.run(asked())


def test_an_engine_over_shared_memory_is_not_copied(engine):
    content = engine.bytes
    memory = np.zeros(len(content) + 128, np.uint8)
    begin = -memory.ctypes.data % 64
    for offset, is_shared in ((begin, True), (begin + 4, False)):
        array = memory[offset:offset + len(content)]
        array[:] = np.frombuffer(content, np.uint8)
        array.flags.writeable = False
        over = camshaft.Engine.from_buffer(array)
        assert (over._core.address == array.ctypes.data) == is_shared
        assert over.bytes == content
        x = requests(1)[0]
        np.testing.assert_array_equal(over.session().run({"x": x})[0], engine.session().run({"x": x})[0])
        array.flags.writeable = True
    with pytest.raises(camshaft.CorruptEngine):
        camshaft.Engine.from_buffer(np.zeros(4096, np.uint8))
    with pytest.raises(camshaft.CorruptEngine):
        camshaft.Engine.from_buffer(np.zeros(0, np.uint8))


def test_an_engine_keeps_its_memory(engine):
    memory = np.frombuffer(bytearray(len(engine.bytes) + 64), np.uint8)
    array = memory[-memory.ctypes.data % 64:][:len(engine.bytes)]
    array[:] = np.frombuffer(engine.bytes, np.uint8)
    references = sys.getrefcount(array)
    over = camshaft.Engine.from_buffer(array)
    session = over.session()
    del over, memory
    x = requests(1)[0]
    np.testing.assert_array_equal(session.run({"x": x})[0], engine.session().run({"x": x})[0])
    del session
    gc.collect()
    assert sys.getrefcount(array) == references


def test_tensors_of_the_protocol():
    x = np.arange(6, dtype=np.int64).reshape(2, 3)
    assert open_inference.tensors_of({"x": x}) == [{"name": "x", "datatype": "INT64", "shape": [2, 3], "data": [0, 1, 2, 3, 4, 5]}]
    back = open_inference.feed_of({"inputs": open_inference.tensors_of({"x": x})})
    np.testing.assert_array_equal(back["x"], x)
    assert back["x"].dtype == np.int64
    for body in (None, {}, {"inputs": 3}, {"inputs": [3]}, {"inputs": [{"name": "x"}]},
                 {"inputs": [{"name": "x", "datatype": "FP33", "shape": [1], "data": [1]}]},
                 {"inputs": [{"name": "x", "datatype": "FP32", "shape": [2], "data": [1]}]},
                 {"inputs": [{"name": "x", "datatype": "INT8", "shape": [1], "data": [1000]}]},
                 {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": ["a"]}]}):
        with pytest.raises(camshaft.InvalidArgument):
            open_inference.feed_of(body)
