// SPDX-License-Identifier: Apache-2.0
// Image after image: where a batch's activations are more than L3 holds, steps run as a group,
// several times, on a part of the batch each time. What one step writes, the next still finds in
// L2, and what only they use needs the memory of one part. A network of depthwise blocks (96x64, 32
// to 256 channels; Zen 5, 32 MB of L3) takes with one thread 1.03 times as long without at batches
// of 6 to 16, 1.2 times at 32, 1.4 at 128; with two threads, which share out small parts badly, it
// takes less without up to 16.
#pragma once

#include <algorithm>
#include <vector>

#include "runtime/schedule.h"

namespace camshaft::runtime {

// The one policy, of schedules and of the tuner: where a step of a batch touches more than `beyond`
// bytes, passes touch what fills three quarters of the L2 caches.
struct CutPolicy {
  int64_t l2_bytes;  // of all threads
  int64_t beyond;    // see ContextOptions

  int64_t budget() const { return std::min(l2_bytes * 3 / 4, beyond); }
  // Images of a pass when the whole batch touches `bytes`; `batch`: it is not cut.
  int64_t images(int64_t batch, int64_t bytes) const;
};

// Is `view`, the output of a layer or its input `operand`, a batch that is cut with the output?
bool is_cut(const ir::Layer& layer, size_t operand, const TensorView& view,
            const TensorView& output, int64_t batch);

// The groups of a schedule whose tensors are placed, in the order of steps. `l2_bytes`: of all
// threads.
std::vector<ImagePasses> choose_image_passes(const PlanFacts& facts, const Schedule& schedule,
                                             int64_t l2_bytes);

// Is the root tensor `t` in the arena and used by no step outside the group, so that it needs
// memory for `images` only?
bool is_of_pass(const PlanFacts& facts, const Schedule& schedule, const ImagePasses& passes, int t);

// While building, where a layer's batch is larger than that: makes `problem` one of the images of a
// pass, so that tactics are timed as they will run. Gives the number of passes, 1 if it is left as
// it was.
int64_t cut_problem(kernels::Problem& problem, const CutPolicy& policy);

}  // namespace camshaft::runtime
