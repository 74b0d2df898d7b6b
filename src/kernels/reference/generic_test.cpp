// SPDX-License-Identifier: Apache-2.0
// Operators without a layer kind, called with whatever a broken model may hold: arbitrary ranks,
// types, values and attributes must give an error or outputs whose bytes fit their extents, never a
// crash. Right results are the conformance tests' matter.
#include "kernels/reference/generic.h"

#include <gtest/gtest.h>

#include <random>

namespace camshaft::kernels::reference {
namespace {

struct Operand {
  TensorView view;
  std::vector<std::byte> bytes;
};

class Fuzzer {
 public:
  explicit Fuzzer(uint32_t seed) : engine_(seed) {}

  int64_t number(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine_);
  }
  // Beyond everything that could be meant; numbers in between would only take long.
  int64_t far() {
    return one_in(2) ? -(int64_t{1} << number(20, 50)) : int64_t{1} << number(36, 50);
  }
  bool one_in(int64_t count) { return number(1, count) == 1; }

  Operand operand() {
    static const DataType kTypes[] = {DataType::kFloat, DataType::kInt64, DataType::kHalf,
                                      DataType::kUInt8, DataType::kBool};
    Operand operand;
    if (one_in(6)) return operand;
    Extents extents;
    for (int64_t rank = number(0, 5); rank > 0; --rank)
      extents.push_back(one_in(12) ? 0 : number(1, 4));
    const DataType type = one_in(2) ? DataType::kFloat : kTypes[number(0, 4)];
    operand.bytes.resize(ir::bytes_for(type, count_of(extents)) + 8);
    operand.view = make_view(operand.bytes.data(), type, Format::kLinear, extents);
    std::vector<double> values;
    for (int64_t k = 0; k < count_of(extents); ++k)
      values.push_back(static_cast<double>(one_in(40) ? far() : number(-3, 6)));
    store(operand.view, values);
    return operand;
  }

  ir::GenericAttribute attribute(const char* name) {
    static const char* kTexts[] = {"linear",    "nearest", "cubic",    "reflection", "border",
                                   "max",       "mean",    "none",     "sum",        "SAME_UPPER",
                                   "ij,jk->ik", "...i->i", "ii->i",    "circular",   "gated",
                                   "delta",     "silu",    "nesterov", "TFIDF",      "a,b->c"};
    ir::GenericAttribute attribute;
    attribute.name = name;
    for (int64_t k = number(0, 6); k > 0; --k)
      attribute.ints.push_back(one_in(30) ? far() : number(-2, 5));
    for (int64_t k = number(0, 2); k > 0; --k)
      attribute.floats.push_back(static_cast<float>(number(-20, 20)) / 4);
    attribute.text = kTexts[number(0, std::size(kTexts) - 1)];
    return attribute;
  }

 private:
  std::mt19937 engine_;
};

constexpr const char* kAttributeNames[] = {"axis",
                                           "axes",
                                           "kernel_shape",
                                           "strides",
                                           "pads",
                                           "dilations",
                                           "group",
                                           "offset_group",
                                           "mode",
                                           "padding_mode",
                                           "align_corners",
                                           "upper",
                                           "k",
                                           "dtype",
                                           "to",
                                           "exclusive",
                                           "reverse",
                                           "batch_axis",
                                           "time_axis",
                                           "inverse",
                                           "onesided",
                                           "periodic",
                                           "output_datatype",
                                           "q_num_heads",
                                           "kv_num_heads",
                                           "num_heads",
                                           "is_causal",
                                           "scale",
                                           "softcap",
                                           "qk_matmul_output_mode",
                                           "update_rule",
                                           "interleaved",
                                           "rotary_embedding_dim",
                                           "activation",
                                           "auto_pad",
                                           "sorted",
                                           "size",
                                           "alpha",
                                           "p",
                                           "training_mode",
                                           "ignore_index",
                                           "reduction",
                                           "shape",
                                           "seed",
                                           "sample_size",
                                           "equation",
                                           "center_point_box",
                                           "output_height",
                                           "output_width",
                                           "sampling_ratio",
                                           "spatial_scale",
                                           "pooled_shape",
                                           "pool_int64s",
                                           "ngram_counts",
                                           "ngram_indexes",
                                           "weights",
                                           "max_gram_length",
                                           "min_gram_length",
                                           "max_skip_count",
                                           "threshold",
                                           "left_window_size"};

void call_once(const GenericRow& row, Fuzzer& fuzz) {
  ir::Layer layer;
  layer.kind = ir::LayerKind::kGeneric;
  ir::GenericAttrs attrs;
  attrs.op_type = row.op_type;
  attrs.opset = fuzz.number(9, 24);
  for (const char* name : kAttributeNames)
    if (fuzz.one_in(4)) attrs.attributes.push_back(fuzz.attribute(name));
  layer.attrs = attrs;
  std::vector<Operand> operands;
  for (int64_t k = fuzz.number(0, 9); k > 0; --k) operands.push_back(fuzz.operand());
  std::vector<TensorView> inputs;
  for (const Operand& operand : operands) inputs.push_back(operand.view);
  KernelArgs args;
  args.layer = &layer;
  args.inputs = inputs;
  std::vector<DynamicOutput> outputs(3);  // what the vector holds before must not matter
  if (!row.kernel.run_dynamic(args, outputs).ok()) return;
  ASSERT_FALSE(outputs.empty()) << row.op_type;
  for (const DynamicOutput& output : outputs) {
    ASSERT_NE(output.type, DataType::kUndefined) << row.op_type;
    ASSERT_EQ(output.bytes.size(), ir::bytes_for(output.type, count_of(output.extents)))
        << row.op_type;
  }
}

TEST(GenericOperators, SurviveAnyInput) {
  Fuzzer fuzz(1);
#define CAMSHAFT_FUZZ(file)                                                               \
  for (const GenericRow& row : file##_operators()) {                                      \
    SCOPED_TRACE(row.op_type);                                                            \
    /* Those with a fixed output are made by passes, whose operands they have checked. */ \
    if (row.kernel.run_dynamic == nullptr) continue;                                      \
    for (int k = 0; k < 400; ++k) call_once(row, fuzz);                                   \
  }
  CAMSHAFT_REFERENCE_GENERIC(CAMSHAFT_FUZZ)
#undef CAMSHAFT_FUZZ
}

}  // namespace
}  // namespace camshaft::kernels::reference
