// SPDX-License-Identifier: Apache-2.0
// Holds kernels to what they may know while they are prepared: neither the tensors nor the packed
// weights are where they will be in a run.
#pragma once

#include <cstring>
#include <vector>

#include "kernels/prepared.h"

namespace camshaft::kernels {

inline BoundKernel prepare_elsewhere(const Tactic& tactic, const KernelArgs& args,
                                     size_t packed_bytes) {
  static std::byte somewhere[64];
  const auto move_all = [](std::span<const TensorView> views) {
    std::vector<TensorView> moved(views.begin(), views.end());
    for (TensorView& view : moved)
      if (view.data) view.data = somewhere;
    return moved;
  };
  const std::vector<TensorView> inputs = move_all(args.inputs), outputs = move_all(args.outputs);
  std::vector<std::byte> memory(packed_bytes + 64);
  std::byte* packed = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
  if (packed_bytes > 0) std::memcpy(packed, args.packed, packed_bytes);
  KernelArgs unplaced = args;
  unplaced.inputs = inputs;
  unplaced.outputs = outputs;
  unplaced.packed = packed;
  PreparedKernel kernel = prepare_kernel(tactic, unplaced);
  std::memset(memory.data(), 0xff, memory.size());
  return {std::move(kernel), args};
}

}  // namespace camshaft::kernels
