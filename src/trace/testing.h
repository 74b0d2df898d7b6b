// SPDX-License-Identifier: Apache-2.0
// For tests and fuzzing only: a small trace of every kind of event, mutations of it, and a walk
// through everything the product works out of a trace.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "trace/profile.h"

namespace camshaft::trace::testing {

// Two steps on two threads: operators with shapes and stacks, launches by runtime, driver and
// graph, kernels on two devices, copies, memory with addresses, modules, collectives, flows.
std::string sample_trace();

// The trace of a text; for texts that must be readable.
std::shared_ptr<const Trace> read_text(const std::string& text);
std::unique_ptr<Profile> profile_of(const std::string& text, const Semantics& semantics = {});

// Works out and prints all that any route or command shows; returns the bytes of it.
size_t exercise(const std::shared_ptr<const Trace>& trace);

// Changed copies of some texts: bytes, numbers, tokens, slices, events cut, doubled and mixed.
class Mutator {
 public:
  Mutator(std::vector<std::string> seeds, uint32_t seed)
      : seeds_(std::move(seeds)), random_(seed) {}

  std::string next();

 private:
  size_t below(size_t count) { return count == 0 ? 0 : random_() % count; }
  void change_once(std::string& text);
  void change_number(std::string& text);

  std::vector<std::string> seeds_;
  std::mt19937 random_;
};

}  // namespace camshaft::trace::testing
