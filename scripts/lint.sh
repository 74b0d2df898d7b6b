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
# Without the headers that are precompiled for another compiler.
mkdir -p build/lint
sed -E 's/ (-Winvalid-pch|-fpch-preprocess|-Wno-array-bounds|-Wno-restrict|-Wno-stringop-overflow|-Wno-stringop-overread|-include [^ "]*cmake_pch\.hxx)//g' build/release/compile_commands.json >build/lint/compile_commands.json
# The folders that are held clean; the others follow one by one.
for folder in api base cli engine ep inspect quantize runtime tuner; do
  git ls-files "src/$folder/*.cpp"
done | grep -v '_test\.cpp$' |
  xargs -P "$(nproc)" -n 4 clang-tidy -p build/lint --quiet 2> >(grep -v 'warnings generated\|Suppressed\|Use -header-filter' >&2 || true)
echo "lint: clean"
