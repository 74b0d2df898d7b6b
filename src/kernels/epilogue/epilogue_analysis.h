// SPDX-License-Identifier: Apache-2.0
// What the epilogue of a quantized product does to the sums, followed from instruction to
// instruction as long as its form (epilogue_form.h) is that of a PackedEpilogue (epilogue.h).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/program.h"
#include "kernels/epilogue/epilogue_form.h"
#include "kernels/kernel.h"

namespace camshaft::kernels {

using SumForm = Form<ChannelValues>;

class EpilogueAnalysis {
 public:
  // `back`: the dimension of channels, counted from the last; below 0: only operands of one value
  // are constants.
  EpilogueAnalysis(const Problem& problem, const ir::Program& program, size_t first_operand,
                   int back);

  const SumForm& chain() const { return chain_; }
  // The instructions after it, whose value 0 is the chain's result.
  const std::vector<ir::Instruction>& rest() const { return rest_; }
  // Scales, shifts and rounding to codes at the end of the rest.
  struct Last {
    double scale = 1, shift = 0, offset = 0;
  };
  const Last& last() const { return last_; }
  // Codes by what the chain was rounded to, or by what the rest ends with, instead of what follows;
  // else empty.
  const std::vector<uint8_t>& table() const { return table_; }

 private:
  void follow(bool eight_bit);
  bool evaluate(size_t k);
  bool make_table(int main);
  bool fill_table(int from, double first, int count);
  bool depends_on_nothing_but(int from) const;
  int find_code(const std::vector<bool>& absorbed, int main) const;
  std::optional<double> number_of(int v) const;
  const ir::Instruction& instruction(int v) const;
  bool peel(const ir::Instruction& op, int& operand);
  int peel_last(const std::vector<bool>& absorbed, int last);
  void make_rest(const std::vector<bool>& absorbed, int main, int end);

  const ir::Program& program_;
  std::vector<int> uses_;
  std::vector<SumForm> values_;
  SumForm chain_;
  std::vector<ir::Instruction> rest_;
  Last last_;
  std::vector<uint8_t> table_;
};

// Whether an operand is a float constant of one value, or of one per channel; and its values.
bool is_channel_constant(const ProblemTensor& operand, const ProblemTensor& output, int back);
ChannelValues channel_values(const ProblemTensor& operand);

}  // namespace camshaft::kernels
