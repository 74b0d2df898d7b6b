#!/usr/bin/env bash
# Builds the wheels, installs them into an empty environment and tests them there. Arguments go to pytest.
# CAMSHAFT_TEST_ENV names an environment to use instead, with torch for example: the tests that need it are skipped otherwise.
# CAMSHAFT_ONNXRUNTIME: which ONNX Runtime, "==1.23.2" for example.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-/usr/bin/python3}
scripts/wheel.sh
env=${CAMSHAFT_TEST_ENV:-build/python/env}
if [ -z "${CAMSHAFT_TEST_ENV:-}" ]; then
  "$PYTHON" -m venv --clear "$env"
fi
"$env/bin/pip" install --quiet --force-reinstall --no-deps dist/*.whl
"$env/bin/pip" install --quiet dist/*.whl pytest onnx ml_dtypes pillow polygraphy
"$env/bin/pip" install --quiet "onnxruntime${CAMSHAFT_ONNXRUNTIME:-}" || echo "no onnxruntime for this Python: its execution provider is not tested"
# Not from python/: the package is the installed one.
root=$PWD
env=$(realpath "$env")
cd build/python
exec "$env/bin/pytest" -q -rs -p no:cacheprovider --rootdir "$root/python" "$root/python/tests" "$root/python/onnxruntime_ep/tests" "$@"
