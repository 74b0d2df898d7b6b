// SPDX-License-Identifier: Apache-2.0
// What the steps' time hung on: walked back from their end, from each kernel to what it waited for
// (the kernel before it, or the call that launched it), from each wait of the host to the kernel
// that ended it. Candidates, not proof: a trace does not show every dependency.
#pragma once

#include <string>
#include <vector>

#include "trace/profile.h"

namespace camshaft::trace {

struct CriticalPart {
  enum class Kind : uint8_t {
    kKernel,  // a kernel or copy ran
    kLaunch,  // from the launching call to the start of the device's work
    kQueue,   // between two queued kernels
    kHost,    // host code: operators, or what lies outside them
  };
  Kind kind = Kind::kKernel;
  std::string name;
  double total_us = 0;
  int64_t count = 0;
};
const char* critical_kind_name(CriticalPart::Kind kind);

struct CriticalPath {
  double span_us = 0;  // of the steps; the parts add up to it
  double kernel_us = 0, launch_us = 0, queue_us = 0, host_us = 0;
  std::vector<CriticalPart> parts;  // longest first
};

CriticalPath find_critical_path(const Profile& profile);

}  // namespace camshaft::trace
