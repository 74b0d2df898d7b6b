#!/usr/bin/env bash
# Unit tests of graph, importer and passes once more, in a build with assertions and with the address and undefined behaviour sanitizers; then four
# thousand random graphs and two minutes of damaged models. AVX kernels are not compiled a second time: build/release has them (the preset checked).
set -euo pipefail
cd "$(dirname "$0")/.."
tests=(ir_test onnx_test passes_test)

[ -f build/release/build.ninja ] || cmake --preset release >/dev/null
cmake --build --preset release --target camshaft_kernels
cmake --preset checked >/dev/null
cmake --build --preset checked --target "${tests[@]}" fuzz_onnx fuzz_graphs

# A report is an abort: fuzz_onnx keeps the model.
export ASAN_OPTIONS=abort_on_error=1:detect_leaks=1 UBSAN_OPTIONS=abort_on_error=1:print_stacktrace=1
CAMSHAFT_FUZZ=2000 ctest --preset checked --timeout 1200 -R "^($(IFS='|'; echo "${tests[*]}"))\$"

# Shared out among the processors.
processors=$(nproc) running=()
share=$((${GRAPHS_TO_FUZZ:-4000} / processors))
for ((k = 0; k < processors; ++k)); do
  CAMSHAFT_CHECK_GRAPHS=1 build/checked/bin/fuzz_graphs --seed $((100001 + k * share)) --count $share &
  running+=($!)
done
build/checked/bin/fuzz_onnx --memory 0 --seconds "${SECONDS_OF_FUZZING:-120}" &
running+=($!)
failed=0
for process in "${running[@]}"; do wait "$process" || failed=1; done
exit $failed
