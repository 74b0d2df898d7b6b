#!/usr/bin/env bash
# Format, static analysis, folder layering. Needs a configured build/release for the compile commands.
set -euo pipefail
cd "$(dirname "$0")/.."

sources() { git ls-files 'src/*.h' 'src/*.cpp' 'include/*.h' 'python/src/*.h' 'python/src/*.cpp' 'examples/*.cpp' 'examples/*.c' 'tests/*.cpp' 'bench/*.cpp'; }

echo "== format"
# Other versions format some lines otherwise; the sources are held to one.
if clang-format --version | grep -q 'version 14\.'; then
  sources | xargs clang-format --dry-run -Werror
else
  echo "skipped: clang-format 14 decides, this is $(clang-format --version)"
fi

echo "== layering"
${PYTHON:-/usr/bin/python3} -m pytest -q tests/project

echo "== clang-tidy"
clang-tidy --version | grep -q 'version 14\.' || { echo "skipped: clang-tidy 14 decides"; exit 0; }
[ -f build/release/compile_commands.json ] || cmake --preset release >/dev/null
# The folders that are held clean; the others follow one by one.
${PYTHON:-/usr/bin/python3} scripts/tidy.py api base cli engine ep inspect quantize runtime tuner
echo "lint: clean"
