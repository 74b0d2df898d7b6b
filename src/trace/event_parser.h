// SPDX-License-Identifier: Apache-2.0
// Event objects into the columns of a Trace, with simdjson's on-demand reader.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "trace/trace.h"

namespace camshaft::trace {

class EventParser {
 public:
  explicit EventParser(Trace& trace);
  ~EventParser();

  // `batch` is "[{…},{…}]" and is followed by at least padding() readable bytes.
  void parse(std::string& batch);
  static size_t padding();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace camshaft::trace
