// SPDX-License-Identifier: Apache-2.0
// Why a pass leaves a layer as it is: a code that programs count and sort by, and a sentence.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace camshaft::ir {

enum class Reason : uint8_t {
  kNone,         // of records that tell of something done
  kConstant,     // weights, a bias, a scale or a zero point would have to be constant
  kExtent,       // only running tells an extent that has to be known
  kShape,        // ranks, extents or a broadcast that the other form does not take
  kType,         // an operand or a result of another type
  kAttribute,    // a stride, padding, window, group, axis or mode that the other form does not take
  kGrid,         // scales or zero points that codes do not allow
  kReader,       // a value is needed elsewhere as well, or operands come from different places
  kValue,        // results would not be the same
  kLimit,        // a program would be longer than kernels take
  kCost,         // nothing is gained, or it would be slower
  kOtherPass,    // another pass does it, or times both forms
  kUnsupported,  // no kernel does it
};
inline constexpr int kNumReasons = static_cast<int>(Reason::kUnsupported) + 1;
const char* reason_name(Reason reason);  // "constant", "extent" … as JSON says it; "" of kNone

// Nothing (false), or why not.
struct Refusal {
  Reason reason = Reason::kNone;
  std::string text;

  explicit operator bool() const { return reason != Reason::kNone; }
  Refusal behind(std::string words) && { return {reason, std::move(words) + text}; }
};

}  // namespace camshaft::ir
