# SPDX-License-Identifier: Apache-2.0
"""What a user would write without a server: ONNX Runtime behind FastAPI, raw tensors in and out.

    MODELS='{"name": ["model.onnx", [1, 3, 128, 128]]}' uvicorn fastapi_onnxruntime:app --port 8100 --no-access-log
"""
import json
import os

import numpy as np
import onnxruntime
from fastapi import FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool

app = FastAPI()
sessions = {}
for name, (file, shape) in json.loads(os.environ["MODELS"]).items():
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ.get("THREADS", "2"))
    sessions[name] = (onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"]), shape)


@app.get("/ready")
def ready():
    return {}


@app.post("/infer/{name}")
async def infer(name: str, request: Request):
    session, shape = sessions[name]
    tensor = np.frombuffer(await request.body(), np.float32).reshape(shape)
    outputs = await run_in_threadpool(session.run, None, {session.get_inputs()[0].name: tensor})
    return Response(b"".join(np.ascontiguousarray(output).tobytes() for output in outputs), media_type="application/octet-stream")
