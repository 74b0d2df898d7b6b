// SPDX-License-Identifier: Apache-2.0
// What the epilogue of a quantized product does to the sums, followed from instruction to
// instruction as long as it has the form of a PackedEpilogue (epilogue.h). Constants are folded in
// double precision.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "ir/program.h"
#include "kernels/kernel.h"

namespace camshaft::kernels {

using ChannelValues = std::vector<double>;  // one, or one per channel

// What has happened to the sums so far.
struct EpilogueChain {
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  ChannelValues multiplier{1}, addend{0};
  double residual_scale = 0, slope = 1, post = 0, offset = 0, low = -kInfinity, high = kInfinity;
  int residual = -1;  // operand (0: the first), -1: none
  bool bounded = false, rounded = false;
  // Codes or a gate in between: f(acc * multiplier + addend) * code.scale + code.shift.
  struct Code {
    bool present = false, is_gate = false;
    double low = 0, high = 0, scale = 1, shift = 0;
  } code;

  // Each does one step; false: that has no place in the form any more, and the chain is spoilt.
  bool scale(const ChannelValues& by);
  bool shift(const ChannelValues& by);
  bool clip(double from, double to);
  bool leak(double by);
  bool gate();
  bool add_residual(int operand, double by, double shift_by);

  // Whether v, not yet clamped, is a 32-bit integer when rounded, whatever the accumulators are.
  bool fits_int(bool residual_is_byte) const;

 private:
  bool go_on_from_codes();
  bool scale_each(const ChannelValues& by);
};

class EpilogueAnalysis {
 public:
  // `back`: the dimension of channels, counted from the last; below 0: only operands of one value
  // are constants.
  EpilogueAnalysis(const Problem& problem, const ir::Program& program, size_t first_operand,
                   int back);

  const EpilogueChain& chain() const { return chain_; }
  // The instructions after it, whose value 0 is the chain's result.
  const std::vector<ir::Instruction>& rest() const { return rest_; }
  // Scales, shifts and rounding to codes at the end of the rest.
  struct Last {
    double scale = 1, shift = 0, offset = 0;
  };
  const Last& last() const { return last_; }
  // Codes by what the chain was rounded to, instead of a rest; else empty.
  const std::vector<uint8_t>& table() const { return table_; }

 private:
  // What a value of the program is.
  struct Value {
    enum Kind { kOther, kConstant, kOperand } kind = kOther;
    ChannelValues values;  // of a constant
    int operand = -1;      // operand * scale + shift
    double scale = 1, shift = 0;
    bool is_scalar() const { return kind == kConstant && values.size() == 1; }
  };

  void follow(bool eight_bit);
  Value evaluate(const ir::Instruction& op) const;
  bool add(const Value& other, double sign);
  bool absorb_unary(const ir::Instruction& op);
  bool absorb_fma(const ir::Instruction& op, int main);
  bool absorb(const ir::Instruction& op, int main);
  bool make_table(const std::vector<bool>& absorbed, int main);
  std::optional<double> number_of(int v) const;
  bool peel(const ir::Instruction& op, int& operand);
  int peel_last(const std::vector<bool>& absorbed);
  void make_rest(const std::vector<bool>& absorbed, int main, int end);
  const Value* value(int v) const { return v < 0 ? nullptr : &values_[static_cast<size_t>(v)]; }

  const ir::Program& program_;
  std::vector<int> uses_;
  std::vector<Value> values_;
  EpilogueChain chain_;
  std::vector<ir::Instruction> rest_;
  Last last_;
  std::vector<uint8_t> table_;
};

// Whether an operand is a float constant of one value, or of one per channel; and its values.
bool is_channel_constant(const ProblemTensor& operand, const ProblemTensor& output, int back);
ChannelValues channel_values(const ProblemTensor& operand);

}  // namespace camshaft::kernels
