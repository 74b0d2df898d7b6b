#!/usr/bin/env bash
# Builds the wheel, installs it into an empty environment and tests it there. Arguments go to pytest.
# CAMSHAFT_TEST_ENV names an environment to use instead, with torch for example: the tests that need it are skipped otherwise.
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
# Not from python/: the package is the installed one.
root=$PWD
env=$(realpath "$env")
cd build/python
exec "$env/bin/pytest" -q -rs -p no:cacheprovider --rootdir "$root/python" "$root/python/tests" "$@"
