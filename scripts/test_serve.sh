#!/usr/bin/env bash
# The tests of `camshaft serve`, with Triton's Python clients and KServe's types where PyPI can be reached (they stay in build/serve/env), else
# without.
# Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-/usr/bin/python3}
env=build/serve/env
clients='tritonclient[http,grpc]==2.73.0'

if ! "$env/bin/python" -c 'import pytest, tritonclient.http, tritonclient.grpc, kubernetes, yaml, six' 2>/dev/null; then
  rm -rf "$env"
  # Of kserve only the types of its resources: not the server, nor what that needs.
  if "$PYTHON" -m venv "$env" && "$env/bin/pip" install --quiet "$clients" pytest numpy kubernetes pyyaml six &&
    "$env/bin/pip" install --quiet --no-deps kserve==0.21.0; then :; else
    echo "skipped: no package index, so neither tritonclient (tests/serve/test_triton.py) nor kserve (test_deploy.py)"
    rm -rf "$env"
  fi
fi
[ -x "$env/bin/python" ] && PYTHON=$env/bin/python
exec "$PYTHON" -m pytest -q -rs -p no:cacheprovider tests/serve "$@"
