#!/usr/bin/env bash
# Tests the wheel in dist/ together with a package that is too large for the environment of scripts/test_wheel.sh: ray, mlserver or torch. Each has
# an environment of its own, build/python/env-NAME, which stays. Further arguments go to pytest. Exit code 77: the package is not to be had.
# usage: scripts/test_extra.sh ray|mlserver|torch [PYTEST ARGUMENTS]
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-/usr/bin/python3}
name=$1
shift
tests=test_$name.py
case $name in
  ray) wanted='ray[data,serve]==2.60.0' more=(onnx) ;;
  mlserver) wanted='mlserver==1.7.1' more=(onnx) ;;
  torch) wanted='torch==2.13.0' more=(onnx onnxscript transformers==5.23.0 torchao==0.18.0) ;;
  *) echo "usage: $0 ray|mlserver|torch" >&2; exit 1 ;;
esac
env=$PWD/build/python/env-$name
skip() { echo "skipped: $1 (python/tests/$tests)"; exit 77; }
none="no package index has $wanted for this Python"

compgen -G 'dist/camshaft-[0-9]*.whl' >/dev/null || { echo "error: no wheel in dist/: make wheel" >&2; exit 1; }
if [ "$(cat "$env/wanted" 2>/dev/null)" != "$wanted ${more[*]}" ]; then
  rm -rf "$env"
  "$PYTHON" -m venv "$env" || skip "no virtual environments here"
  if [ "$name" = torch ]; then
    # The build for CPUs (2.13.0+cpu), or none: the other one brings several GB of CUDA.
    "$env/bin/pip" install --quiet --dry-run --no-deps --ignore-installed --report "$env/report" "$wanted" >/dev/null || skip "$none"
    grep -qE '"version": *"[0-9.]+\+cpu"' "$env/report" || skip "$wanted is to be had with CUDA only"
  fi
  "$env/bin/pip" install --quiet "$wanted" || skip "$none"
  "$env/bin/pip" install --quiet "${more[@]}" pytest ml_dtypes || skip "no package index has ${more[*]} for this Python"
  echo "$wanted ${more[*]}" >"$env/wanted"
fi
"$env/bin/pip" install --quiet --force-reinstall --no-deps dist/camshaft-[0-9]*.whl
"$env/bin/pip" install --quiet dist/camshaft-[0-9]*.whl
root=$PWD
cd build/python  # not from python/: the package is the installed one
exec "$env/bin/python" -m pytest -q -rs -p no:cacheprovider --rootdir "$root/python" "$root/python/tests/$tests" "$@"
