// SPDX-License-Identifier: Apache-2.0
// Experts: row by row, sums in double.
#include "ir/expert_weights.h"
#include "kernels/index_error.h"
#include "kernels/reference/tables.h"

namespace camshaft::kernels::reference {
namespace {

// One of the two products of all experts.
class ExpertMatrix {
 public:
  ExpertMatrix(const ir::ExpertProduct& product, const TensorView& weights, const TensorView& bias)
      : product_(product) {
    if (product.is_float())
      floats_ = load<float>(weights);
    else
      for (const int64_t byte : load_ints(weights)) bytes_.push_back(static_cast<std::byte>(byte));
    if (bias.present()) bias_ = load<double>(bias);
  }

  void multiply(int64_t expert, const std::vector<double>& row, std::vector<double>& sums) const {
    sums.assign(product_.columns, 0);
    for (int64_t column = 0; column < product_.columns; ++column) {
      const int64_t at = expert * product_.columns + column;
      sums[column] = (product_.is_float() ? dot_floats(at, row) : dot_codes(expert, column, row)) +
                     (bias_.empty() ? 0 : bias_[at]);
    }
  }

 private:
  double dot_floats(int64_t at, const std::vector<double>& row) const {
    double sum = 0;
    for (int64_t k = 0; k < product_.depth; ++k) sum += row[k] * floats_[at * product_.depth + k];
    return sum;
  }
  double dot_codes(int64_t expert, int64_t column, const std::vector<double>& row) const {
    const ir::RecordReader records(ir::RecordLayout(product_.low_bits()),
                                   bytes_.data() + expert * product_.bytes());
    const ir::RecordLayout& layout = records.layout();
    double sum = 0;
    for (int64_t b = 0; b < layout.blocks(); ++b) {
      const double scale = records.scale(column, b), zero = records.zero(column, b);
      for (int64_t k = 0; k < layout.count_of(b); ++k)
        sum += row[b * layout.block + k] * (records.code(column, b, k) - zero) * scale;
    }
    return sum;
  }

  ir::ExpertProduct product_;
  std::vector<float> floats_;
  std::vector<std::byte> bytes_;
  std::vector<double> bias_;
};

// The first product's columns as the second one reads them.
std::vector<double> activated(const ir::ExpertsAttrs& attrs, const std::vector<double>& sums) {
  if (attrs.activation.empty()) return {sums.begin(), sums.begin() + attrs.hidden};
  const std::vector<float> values(sums.begin(), sums.end());
  const float* const inputs[] = {values.data(), values.data() + values.size() - attrs.hidden};
  std::vector<float> result(attrs.hidden);
  evaluate_program(attrs.activation,
                   std::span(inputs, static_cast<size_t>(attrs.activation.num_inputs)),
                   attrs.hidden, result.data());
  return {result.begin(), result.end()};
}

Status experts(const KernelArgs& args) {
  const auto& attrs = args.layer->as<ir::ExpertsAttrs>();
  CAMSHAFT_TRY(chosen_error(args.inputs[ir::kExpertsChosen], attrs.experts));
  const Ints chosen = load_ints(args.inputs[ir::kExpertsChosen]);
  const std::vector<double> rows = load<double>(args.inputs[ir::kExpertRows]),
                            shares = load<double>(args.inputs[ir::kExpertShares]);
  const ExpertMatrix up(ir::up_product(attrs), args.inputs[ir::kUpWeights],
                        input(args, ir::kUpBias)),
      down(ir::down_product(attrs), args.inputs[ir::kDownWeights], input(args, ir::kDownBias));
  const int64_t count = static_cast<int64_t>(rows.size()) / attrs.width;
  if (count == 0) return ok_status();
  const int64_t each = static_cast<int64_t>(chosen.size()) / count;
  std::vector<double> y(rows.size());
  parallel(args, count, [&](int64_t row) {
    const std::vector<double> x(rows.begin() + row * attrs.width,
                                rows.begin() + (row + 1) * attrs.width);
    std::vector<double> sums;
    for (int64_t c = row * each; c < (row + 1) * each; ++c) {
      up.multiply(chosen[c], x, sums);
      down.multiply(chosen[c], activated(attrs, sums), sums);
      for (int64_t k = 0; k < attrs.width; ++k) y[row * attrs.width + k] += shares[c] * sums[k];
    }
  });
  store(args.outputs[0], y);
  return ok_status();
}

}  // namespace

std::span<const KindRow> experts_kinds() {
  static constexpr KindRow kRows[] = {{ir::LayerKind::kExperts, {experts, nullptr}}};
  return kRows;
}

}  // namespace camshaft::kernels::reference
