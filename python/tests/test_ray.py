# SPDX-License-Identifier: Apache-2.0
"""Ray clusters of several nodes on this machine: every row is compared; an actor dies in the middle, a node is lost. `scripts/test_extra.sh ray` has Ray."""
import asyncio
import json
import os
import signal
import socket
import threading
import time
import urllib.error
import urllib.request

import numpy as np
import pytest

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_DEDUP_LOGS", "0")
os.environ.setdefault("RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S", "60")  # by default a proxy that takes 5 s to start is killed
ray = pytest.importorskip("ray")
pytest.importorskip("ray.data")
serve = pytest.importorskip("ray.serve")
from ray.cluster_utils import Cluster  # noqa: E402
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: E402

import camshaft  # noqa: E402
import camshaft.ray  # noqa: E402

from conftest import TensorProto, helper, model, value  # noqa: E402

HIDDEN = 4096  # small objects travel with messages, not through the object store
NODES = 3
HOST = "127.0.0.2"  # loopback; Ray takes 127.0.0.1 for this machine's address in the network
NODE = {"num_cpus": 2, "node_ip_address": HOST, "object_store_memory": 100 << 20}


@pytest.fixture(scope="module")
def cluster():
    """Three nodes, each with an object store of its own."""
    cluster = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    for _ in range(NODES - 1):
        cluster.add_node(**NODE)
    cluster.wait_for_nodes()
    ray.init(address=cluster.address, _node_ip_address=HOST, log_to_driver=False)
    yield cluster
    serve.shutdown()
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture(scope="module")
def net():
    """y = relu(x @ a) @ b of rows of 16."""
    rng = np.random.default_rng(4)
    weights = {"a": rng.standard_normal((16, HIDDEN)).astype("f"), "b": rng.standard_normal((HIDDEN, 8)).astype("f")}
    nodes = [helper.make_node("MatMul", ["x", "a"], ["h"], "up"), helper.make_node("Relu", ["h"], ["r"], "relu"),
             helper.make_node("MatMul", ["r", "b"], ["y"], "down")]
    return model(nodes, [value("x", TensorProto.FLOAT, ["batch", 16])], [value("y", TensorProto.FLOAT, ["batch", 8])], weights), weights


def expected(x, weights):
    return np.maximum(x @ weights["a"], 0) @ weights["b"]


@pytest.fixture(scope="module")
def engine(cluster, net):
    return camshaft.ray.build(net[0], num_cpus=1, max_batch_size=32, optimization_level=1)


def rows_of(count):
    return np.random.default_rng(6).standard_normal((count, 16)).astype("f")


def compare(table, x, weights):
    """Every row once, with its own answer."""
    order = np.argsort(table["id"], kind="stable")
    np.testing.assert_array_equal(np.asarray(table["id"])[order], np.arange(len(x)))
    np.testing.assert_allclose(np.stack(table["y"])[order], expected(x, weights), rtol=1e-3, atol=1e-3)


def columns(dataset):
    batches = list(dataset.iter_batches(batch_size=None))
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def dataset_of(x, blocks):
    return ray.data.from_numpy([np.hstack([np.arange(len(x), dtype="f")[:, None], x])[part] for part in np.array_split(np.arange(len(x)), blocks)]) \
        .map_batches(lambda batch: {"id": batch["data"][:, 0].astype(np.int64), "x": np.ascontiguousarray(batch["data"][:, 1:])})


def test_an_engine_is_mapped_on_every_node(cluster, engine):
    @ray.remote(num_cpus=0)
    def look(shared):
        opened = shared.open()
        address = opened._core.address
        with open("/proc/self/maps") as maps:
            for line in maps:
                begin, end = (int(word, 16) for word in line.split()[0].split("-"))
                if begin <= address < end:
                    return line.split()[1], line.split()[4], opened.info["layer_count"]

    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
    assert len(nodes) == NODES
    seen = ray.get([look.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(engine)
                    for node in nodes for _ in range(2)])
    assert all(access.endswith("s") for access, _, _ in seen), seen  # shared memory, not a copy
    inodes = [inode for _, inode, _ in seen]
    assert all(inodes[k] == inodes[k + 1] for k in range(0, len(inodes), 2))  # the same in both processes of a node
    assert len({layers for _, _, layers in seen}) == 1


def test_every_row_of_a_dataset(cluster, engine, net):
    class Told(camshaft.ray.Predictor):
        def __call__(self, batch):
            rows = len(batch["id"])
            return {**super().__call__(batch), "threads": np.full(rows, self.session.threads), "node": np.full(rows, ray.get_runtime_context().get_node_id()),
                    "writable": np.full(rows, batch["x"].flags.writeable), "copied": np.full(rows, not batch["x"].flags.c_contiguous)}

    x = rows_of(20000)
    table = columns(dataset_of(x, 12).map_batches(Told, fn_constructor_args=[engine], num_cpus=2, concurrency=2, batch_size=100))
    compare(table, x, net[1])
    assert set(table["threads"]) == {2}
    assert not table["writable"].any() and not table["copied"].any()  # read where they lie
    assert len(set(table["node"])) == 2
    assert set(table) == {"id", "y", "threads", "node", "writable", "copied"}


def test_an_actor_dies_in_the_middle(cluster, engine, net, tmp_path):
    marker = tmp_path / "died"

    class Dies(camshaft.ray.Predictor):
        def __call__(self, batch):
            if 5000 in batch["id"] and not marker.exists():
                marker.write_text(str(os.getpid()))
                os.kill(os.getpid(), signal.SIGKILL)
            return {**super().__call__(batch), "pid": np.full(len(batch["id"]), os.getpid())}

    x = rows_of(10000)
    table = columns(dataset_of(x, 20).map_batches(Dies, fn_constructor_args=[engine], num_cpus=1, concurrency=3, batch_size=64))
    died = int(marker.read_text())
    compare(table, x, net[1])
    pids = np.asarray(table["pid"])
    assert died not in pids[np.asarray(table["id"]) == 5000]
    assert len(set(pids)) >= 2


def lose(cluster, node):
    """A whole node at once: its processes, and what lay in its object store."""
    cluster.remove_node(node, allow_graceful=False)
    deadline = time.monotonic() + 60
    while any(row["Alive"] and row["NodeID"] == node.node_id for row in ray.nodes()):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_node_is_lost_in_the_middle(cluster, engine, net, tmp_path):
    """Its actors, and the blocks they had made: nothing lost, nothing twice."""
    marker = tmp_path / "lost"
    seen = tmp_path / "seen"
    seen.mkdir()

    def done(node):
        """Rows a node has worked on."""
        return sum(int(line) for line in (seen / node).read_text().split()) if (seen / node).exists() else 0

    class Told(camshaft.ray.Predictor):
        def __call__(self, batch):
            node, rows = ray.get_runtime_context().get_node_id(), len(batch["id"])
            while done(node) >= 2000 and not marker.exists():  # actors of other nodes may need long to start
                time.sleep(0.02)
            answer = super().__call__(batch)
            with open(seen / node, "a") as file:
                file.write(f"{rows}\n")
            return {**answer, "node": np.full(rows, node)}

    x = rows_of(12000)
    lost = []

    def watch():
        """Loses the first node to have made a block or two: Ray alone decides where actors go, but the head's two processors hold only two of four."""
        deadline = time.monotonic() + 240
        while not lost and time.monotonic() < deadline:
            time.sleep(0.02)
            lost.extend([node for node in cluster.worker_nodes if done(node.node_id) >= 500][:1])
        for node in lost:
            lose(cluster, node)
        marker.touch()

    watcher = threading.Thread(target=watch)
    watcher.start()
    table = columns(dataset_of(x, 40).map_batches(Told, fn_constructor_args=[engine], num_cpus=1, concurrency=NODES + 1, batch_size=50,
                                                  scheduling_strategy="SPREAD"))
    watcher.join()
    cluster.add_node(**NODE)
    compare(table, x, net[1])
    node, = lost
    assert 500 <= done(node.node_id) < len(x)  # it was at work, and not done
    assert sum(done(file.name) for file in seen.iterdir()) >= len(x)
    assert len(set(table["node"])) >= 2


def test_an_engine_of_a_lost_node_is_built_again(cluster, net):
    builders = [cluster.add_node(**NODE, resources={"builder": 1}) for _ in range(2)]
    cluster.wait_for_nodes()
    shared = camshaft.ray.build(net[0], num_cpus=1, max_batch_size=32, optimization_level=0, resources={"builder": 1})
    ray.wait([shared.reference], fetch_local=False)
    homes = ray.experimental.get_object_locations([shared.reference])[shared.reference]["node_ids"]
    home, = [node for node in builders if node.node_id in homes]
    lose(cluster, home)
    x = rows_of(64)
    compare(columns(dataset_of(x, 2).map_batches(camshaft.ray.Predictor, fn_constructor_args=[shared], num_cpus=1, concurrency=1, batch_size=32)), x, net[1])
    builders.remove(home)
    cluster.remove_node(builders[0])


def test_columns_have_other_names_and_batches_are_larger(cluster, engine, net):
    x = rows_of(500)
    dataset = dataset_of(x, 3).map_batches(lambda batch: {"id": batch["id"], "pixels": batch["x"], "more": batch["id"] * 2})
    table = columns(dataset.map_batches(camshaft.ray.Predictor, fn_constructor_args=[engine], num_cpus=1, concurrency=1, batch_size=None,
                                        fn_constructor_kwargs={"inputs": {"x": "pixels"}, "outputs": {"y": "scores"}, "keep": ["id"]}))
    assert set(table) == {"id", "scores"}
    compare({"id": table["id"], "y": table["scores"]}, x, net[1])


def test_a_network_of_fixed_rows_and_a_missing_column(cluster):
    weights = rows_of(16)
    proto = model([helper.make_node("MatMul", ["x", "w"], ["y"], "product")], [value("x", TensorProto.FLOAT, [7, 16])],
                  [value("y", TensorProto.FLOAT, [7, 16])], {"w": weights})
    fixed = camshaft.ray.ship(camshaft.build(proto, optimization_level=0))
    predictor = camshaft.ray.Predictor(fixed)
    x = rows_of(24)
    x.flags.writeable = False
    out = predictor({"x": x, "id": np.arange(24)})
    np.testing.assert_allclose(out["y"], x @ weights, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(out["id"], np.arange(24))
    with pytest.raises(camshaft.InvalidArgument, match="no column 'x'; there are id"):
        predictor({"id": np.arange(3)})
    with pytest.raises(camshaft.InvalidArgument, match="float64"):
        predictor({"x": np.zeros((7, 16))})


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def port(cluster):
    chosen = free_port()
    # One proxy: those of several nodes would share the port here, and a connection could meet one that has not heard of a route yet.
    serve.start(proxy_location="HeadOnly", http_options={"host": "127.0.0.1", "port": chosen})
    return chosen


def ask(port, path, body=None):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode() if body is not None else None)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def wait_for_route(port, route):
    """The application is ready before the proxy knows where it is."""
    until = time.monotonic() + 60
    while route not in ask(port, "/-/routes")[1]:
        assert time.monotonic() < until, f"no route {route}"
        time.sleep(0.05)


def replicas():
    """Names of the replicas that live."""
    return [row["name"] for row in ray.util.list_named_actors(all_namespaces=True) if row["namespace"] == "serve" and "#net#" in row["name"]]


def test_a_deployment_batches_and_survives_a_replica(cluster, port, engine, net):
    handle = serve.run(camshaft.ray.deployment(engine, name="net", num_replicas=2, num_cpus=1, latency_goal_ms=200, health_check_period_s=1))
    wait_for_route(port, "/")
    x = rows_of(600)
    weights = net[1]
    status, metadata = ask(port, "/v2/models/net")
    assert status == 200 and metadata["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 16]}]
    body = {"id": "7", "inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 16], "data": x[:2].ravel().tolist()}]}
    status, answer = ask(port, "/v2/models/net/infer", body)
    assert status == 200 and answer["id"] == "7" and answer["outputs"][0]["shape"] == [2, 8]
    np.testing.assert_allclose(np.reshape(answer["outputs"][0]["data"], (2, 8)), expected(x[:2], weights), rtol=1e-3, atol=1e-3)
    assert ask(port, "/v2/models/net/infer", {"inputs": []})[0] == 400
    assert ask(port, "/v2/models/other/infer", body)[0] == 404
    assert ask(port, "/v2/models/net/infer", {"inputs": [{**body["inputs"][0], "shape": [2, 15]}]})[0] == 400

    answers, failures = {}, []

    async def one(k):
        for _ in range(200):
            try:
                answer = await handle.infer.remote({"x": x[k:k + 1]})
            except ray.exceptions.RayError as error:  # its replica has died: asked again, as a client would
                failures.append(type(error).__name__)
                await asyncio.sleep(0.05)
                continue
            assert k not in answers
            answers[k] = answer["y"][0]
            return

    async def all_of_them():
        at_work = [asyncio.ensure_future(one(k)) for k in range(len(x) // 2)]
        await asyncio.sleep(0.05)
        before = await asyncio.get_running_loop().run_in_executor(None, replicas)
        assert len(before) == 2
        ray.kill(ray.get_actor(before[0], "serve"))
        at_work += [asyncio.ensure_future(one(k)) for k in range(len(x) // 2, len(x))]
        await asyncio.gather(*at_work)
        return before

    before = asyncio.run(all_of_them())
    assert sorted(answers) == list(range(len(x)))
    np.testing.assert_allclose(np.stack([answers[k] for k in range(len(x))]), expected(x, weights), rtol=1e-3, atol=1e-3)
    status, told = ask(port, "/v2/models/net/batches")
    assert status == 200 and told["batches"] and all(record["why"] and record["rows"] <= 32 for record in told["batches"])
    assert before[0] not in replicas()
    serve.delete("default")
