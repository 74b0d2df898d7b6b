#!/usr/bin/env bash
# The thread pool, contexts on several threads, queues, batches and the HTTP server under the thread sanitizer: unit tests, tests/serve, a load
# from 200 connections, a network on four threads. AVX kernels are the release build's (the preset checked-threads); what gRPC's threads do cannot
# be judged (tests/sanitizers/threads.supp). About ten minutes the first time.
set -euo pipefail
cd "$(dirname "$0")/.."
tests=(base_test batching_test runtime_test api_test server_test serve_test)
bin=$PWD/build/checked-threads/bin

[ -f build/release/build.ninja ] || cmake --preset release >/dev/null
cmake --build --preset release --target camshaft_kernels serve_load
cmake --preset checked-threads >/dev/null
cmake --build --preset checked-threads --target "${tests[@]}" camshaft_camshaft_program camshaft_serve_program

export TSAN_OPTIONS="suppressions=$PWD/tests/sanitizers/threads.supp"  # a report makes the program's exit code 66
ctest --preset checked-threads --timeout 1200 -R "^($(IFS='|'; echo "${tests[*]}"))\$"
"$bin/camshaft" bench examples/models/yolox_nano/model.onnx --threads 4 --level 0 --duration 3 >/dev/null
CAMSHAFT_BIN=$bin scripts/test_serve.sh --deselect tests/serve/test_fuzz.py --deselect tests/serve/test_deploy.py -k 'not grpc'

folder=$(mktemp -d)
trap 'kill "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT
mkdir -p "$folder/models/detector/1"
cp examples/models/yolox_nano/model.onnx "$folder/models/detector/1/"
PYTHONPATH=tests/serve:tests/cli "${PYTHON:-/usr/bin/python3}" - "$folder/models" <<'END'
import pathlib
import sys

from conftest import add_model, linear_net, slow_net
add_model(pathlib.Path(sys.argv[1]), "linear", linear_net())
add_model(pathlib.Path(sys.argv[1]), "two", slow_net(2))
END
"$bin/camshaft-serve" "$folder/models" --http 0 --grpc -1 --metrics 0 --engine-cache "$folder/engines" --latency-goal-ms 50 >"$folder/log" &
server=$!
until grep -q '^ready$' "$folder/log"; do
  kill -0 "$server" 2>/dev/null || { cat "$folder/log"; exit 1; }
  sleep 0.2
done
port=$(sed -n 's|^HTTP at http://127.0.0.1:\([0-9]*\)/v2$|\1|p' "$folder/log")
for model in linear two detector; do
  echo "$model: $(build/release/bin/serve_load "$model" --port "$port" --connections 200 --seconds 10)"
done
kill "$server"
wait "$server" || { echo "error: the server under the thread sanitizer ended with $?"; exit 1; }
echo "no data race"
