# SPDX-License-Identifier: Apache-2.0
"""What a user would write without a server: ONNX Runtime or OpenVINO behind FastAPI, raw tensors in and out.

    ENGINE=onnxruntime MODELS='{"name": ["model.onnx", [1, 3, 128, 128]]}' uvicorn fastapi_peer:app --port 8100 --no-access-log
"""
import json
import os

import numpy as np
from fastapi import FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool

app = FastAPI()
THREADS = int(os.environ.get("THREADS", "2"))


def onnxruntime_model(file):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda tensor: session.run(None, {name: tensor})


def openvino_model(file):
    """A request object for every thread that asks, f32 as the other engines."""
    import threading

    import openvino
    compiled = openvino.Core().compile_model(file, "CPU", {"INFERENCE_NUM_THREADS": THREADS, "INFERENCE_PRECISION_HINT": "f32"})
    requests = threading.local()

    def run(tensor):
        if not hasattr(requests, "one"):
            requests.one = compiled.create_infer_request()
        return list(requests.one.infer([tensor]).values())
    return run


load = {"onnxruntime": onnxruntime_model, "openvino": openvino_model}[os.environ.get("ENGINE", "onnxruntime")]
models = {name: (load(file), shape) for name, (file, shape) in json.loads(os.environ["MODELS"]).items()}


@app.get("/ready")
def ready():
    return {}


@app.post("/infer/{name}")
async def infer(name: str, request: Request):
    run, shape = models[name]
    tensor = np.frombuffer(await request.body(), np.float32).reshape(shape)
    outputs = await run_in_threadpool(run, tensor)
    return Response(b"".join(np.ascontiguousarray(output).tobytes() for output in outputs), media_type="application/octet-stream")
