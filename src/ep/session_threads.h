// SPDX-License-Identifier: Apache-2.0
// How many threads a session's pool has. The interface does not tell, so the pool is asked: that
// many tasks of it meet at one time.
#pragma once

#include <mutex>

#include "ep/host.h"

namespace camshaft::ep {

class SessionThreads {
 public:
  // `given` > 0: that many, nobody is asked.
  explicit SessionThreads(int given) : count_(given) {}
  // During a run of the session. Asks once, which takes some milliseconds.
  int count(const Host& host, const abi::KernelContext* context);

 private:
  std::mutex mutex_;
  int count_;
};

}  // namespace camshaft::ep
