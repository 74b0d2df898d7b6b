#!/usr/bin/env bash
# The tests of `camshaft serve`, with Triton's Python clients where PyPI can be reached (they stay in build/serve/env), else without.
# Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-/usr/bin/python3}
env=build/serve/env
clients='tritonclient[http,grpc]==2.73.0'

if ! "$env/bin/python" -c 'import pytest, tritonclient.http, tritonclient.grpc' 2>/dev/null; then
  rm -rf "$env"
  if "$PYTHON" -m venv "$env" && "$env/bin/pip" install --quiet "$clients" pytest numpy; then :; else
    echo "skipped: no package index, so no tritonclient (tests/serve/test_triton.py)"
    rm -rf "$env"
  fi
fi
[ -x "$env/bin/python" ] && PYTHON=$env/bin/python
exec "$PYTHON" -m pytest -q -rs -p no:cacheprovider tests/serve "$@"
