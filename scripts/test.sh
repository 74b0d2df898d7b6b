#!/usr/bin/env bash
# Every test: build, lint, C++ unit, conformance, model and page tests (ctest), Python tests, the wheel. Stops at nothing, fails at the end.
set -uo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-/usr/bin/python3}
export PYTHON

said=$(mktemp -d)
trap 'rm -rf "$said"' EXIT
touch "$said/failed" "$said/suites"
step() {
  local name=$1 start=$SECONDS
  shift
  echo "==== $name"
  "$@" || echo "$name" >>"$said/failed"
  echo "==== $name: $((SECONDS - start)) s"
}

build() { cmake --preset release >/dev/null && cmake --build --preset release; }
unit() { ctest --preset release --timeout 1200 -j "$(nproc)" | tee "$said/ctest"; }
# ctest shows only what failed; how many recorded answers agreed is worth a look each time.
counts() {
  grep -hE '[0-9]+ passed, [0-9]+ failed|[0-9]+ identical|byte for byte$|documents, the seed|no recorded answers' \
    build/release/Testing/Temporary/LastTest.log || echo "none were asked"
}
python_tests() { "$PYTHON" -m pytest -q tests --ignore=tests/project --ignore=tests/serve; }
# 77: no package index to take the wheel's tools from.
wheel() {
  local code=0
  scripts/test_wheel.sh || code=$?
  [ $code -eq 77 ] && echo "skipped: no package index, so no wheel (1 suite)" && echo wheel >>"$said/suites" && return 0
  return $code
}
# The wheel with a large package beside it; 77: that is not to be had.
extra() {
  local code=0
  scripts/test_extra.sh "$1" || code=$?
  [ $code -eq 77 ] && echo "python-$1" >>"$said/suites" && return 0
  return $code
}

of_the_tree() {
  step "Python tests" python_tests
  step "Server" scripts/test_serve.sh
}
of_the_packages() {
  step "Python package" wheel
  if compgen -G 'dist/camshaft-[0-9]*.whl' >/dev/null; then
    for package in ray mlserver torch; do step "Python package with $package" extra "$package"; done
  else
    echo "python-ray python-mlserver python-torch" >>"$said/suites"
  fi
}

step build build
if [ -s "$said/failed" ]; then echo "0 passed, 1 failed"; exit 1; fi
step lint scripts/lint.sh
step "C++ tests" unit
step "recorded answers" counts
# Either keeps one processor busy, and packages wait to be fetched: side by side, what the second says after the first.
of_the_packages >"$said/packages" 2>&1 &
packages=$!
of_the_tree 2>&1 | tee "$said/tree"
wait $packages
cat "$said/packages"
cat "$said/tree" "$said/packages" >"$said/pytest"

# Ten minutes more: a second build, of all but the kernels. CI does it.
[ -z "${CAMSHAFT_TEST_SANITIZED:-}" ] || step "Sanitizers" scripts/test_sanitized.sh

if [ -s "$said/failed" ]; then
  echo "FAILED: $(paste -sd ' ' "$said/failed")"
  exit 1
fi
"$PYTHON" scripts/verdict.py "$said/ctest" build/release/Testing/Temporary/LastTest.log "$said/pytest" "$said/suites"
