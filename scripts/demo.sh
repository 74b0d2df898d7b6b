#!/usr/bin/env bash
# The main job on a real trained model: build an engine, time it, show its layers, then detect objects in a photo.
# usage: scripts/demo.sh BUILD_DIR
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$1/bin
out=build/demo
mkdir -p "$out"

"$bin/camexec" --onnx=examples/models/yolox_nano/model.onnx --saveEngine="$out/yolox_nano.engine" \
  --timingCacheFile="$out/timing.cache" --dumpProfile --separateProfileRun --duration=2
"$bin/camshaft" inspect "$out/yolox_nano.engine"
"$bin/yolox_demo" "$out/yolox_nano.engine" examples/data/photo.png "$out/detections.png"
