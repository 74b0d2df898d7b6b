// SPDX-License-Identifier: Apache-2.0
// The training or inference steps of a trace and where their time went.
#pragma once

#include <string>
#include <vector>

#include "trace/launches.h"
#include "trace/ranges.h"

namespace camshaft::trace {

struct Step {
  std::string name;
  Ticks start = 0, end = 0;
};

struct Steps {
  std::vector<Step> list;
  bool from_profiler = false;    // ProfilerStep#N marks were there
  bool from_annotation = false;  // a repeated user annotation stands for them
  bool undefined = false;        // there is nothing on the host to span
  std::string annotation;
  std::string note;  // why the whole span is one step though there are annotations, "" otherwise

  // What idle time and utilization are measured over: from the first step to the last, but where
  // annotations stand for steps only they themselves.
  Ranges windows() const;
  Range span() const { return list.empty() ? Range{} : Range{list.front().start, list.back().end}; }
};

// The first step that holds a stretch of time wholly, -1 if none does; steps in order of start.
class StepFinder {
 public:
  explicit StepFinder(const std::vector<Step>& steps);
  int32_t find(Ticks start, Ticks end) const;

 private:
  std::vector<Ticks> starts_, ends_;  // ends_: the latest end so far
};

// `by_annotation`: where no ProfilerStep marks any, an annotation that repeats may; a trace without
// host events is one step over its device work.
Steps find_steps(const Trace& trace, const Clock& clock, const Semantics& semantics,
                 const Launches& launches, bool by_annotation);

// The parts a step divides into, in order of priority.
enum class Part : uint8_t {
  kKernel,
  kMemcpy,
  kMemset,
  kCommunication,
  kRuntime,
  kDataLoader,
  kCpuExec,
  kOther
};
inline constexpr int kPartCount = 8;
const char* part_name(Part part);

struct Breakdown {
  Ranges by_part[kPartCount];              // merged activity of the whole trace, kOther empty
  std::vector<std::vector<double>> steps;  // [step][part]
  // Bit k: part k has a range in the step, if only an empty one. Other zeros are whole numbers in
  // the plugin's answers.
  std::vector<uint32_t> touched;  // [step]
  std::vector<double> average;    // [part]
  double average_step = 0;
  bool has_device_activity = false;
  bool has_communication = false;
};

struct Collectives;  // communication.h

Breakdown break_down(const Trace& trace, const Clock& clock, const Semantics& semantics,
                     const Steps& steps, const Collectives& collectives);

}  // namespace camshaft::trace
