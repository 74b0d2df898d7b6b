// SPDX-License-Identifier: Apache-2.0
// AppendRows: every tactic gives the reference kernel's bytes, apart and in place, on every
// instruction set.
#include <cstring>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "ir/append_rows.h"
#include "kernels/prepared.h"
#include "kernels/vector/families.h"

namespace camshaft::kernels {
namespace {

struct Case {
  ir::Extents past;  // along axis: rows
  int64_t axis, fresh, rows, capacity;
  std::vector<int64_t> first;
};

ir::Layer layer_of(int64_t axis) {
  ir::Layer layer;
  layer.kind = ir::LayerKind::kGeneric;
  layer.name = "append";
  layer.attrs = ir::append_attributes(axis);
  return layer;
}

TensorView with_rows(ir::Extents extents, int64_t axis, int64_t rows, int64_t capacity) {
  extents[static_cast<size_t>(axis)] = capacity;
  TensorView view = make_view(nullptr, DataType::kFloat, Format::kLinear, extents);
  view.extents[axis] = rows;
  return view;
}

std::vector<float> numbers(int64_t count, uint32_t seed) {
  std::vector<float> values(static_cast<size_t>(count));
  std::mt19937 generator(seed);
  for (float& value : values) value = std::uniform_real_distribution<float>(-1, 1)(generator);
  return values;
}

int64_t room(ir::Extents extents, int64_t axis, int64_t rows) {
  extents[static_cast<size_t>(axis)] = rows;
  return ir::element_count(extents);
}

class Appending {
 public:
  explicit Appending(const Case& c) : case_(c), layer_(layer_of(c.axis)) {
    const int64_t past_rows = c.past[static_cast<size_t>(c.axis)];
    past_values_ = numbers(room(c.past, c.axis, c.capacity), 1);
    fresh_values_ = numbers(room(c.past, c.axis, c.fresh), 2);
    past_ = with_rows(c.past, c.axis, past_rows, c.capacity);
    fresh_ = with_rows(c.past, c.axis, c.fresh, c.fresh);
    y_ = with_rows(c.past, c.axis, c.rows, c.capacity);
    const int64_t count[] = {static_cast<int64_t>(c.first.size())};
    first_ = make_view(case_.first.data(), DataType::kInt64, Format::kLinear, count);
  }

  // The buffer of y after a run; `tactic` null: the reference kernel.
  Status run(const Tactic* tactic, bool in_place, std::vector<float>& buffer) {
    buffer = in_place ? past_values_ : std::vector<float>(past_values_.size(), -5);
    TensorView past = past_, fresh = fresh_, y = y_;
    past.data = in_place ? buffer.data() : past_values_.data();
    fresh.data = fresh_values_.data();
    y.data = buffer.data();
    const TensorView inputs[] = {past, fresh, first_}, outputs[] = {y};
    ThreadPool pool(2);
    KernelArgs args{&layer_, inputs, outputs, nullptr, nullptr, &pool};
    if (!tactic) return reference_kernel(layer_)->run(args);
    return BoundKernel(*tactic, args).run();
  }

 private:
  Case case_;
  ir::Layer layer_;
  std::vector<float> past_values_, fresh_values_;
  TensorView past_, fresh_, y_, first_;
};

const Case kCases[] = {
    {{1, 2, 5, 8}, 2, 1, 6, 6, {5}},        // dense, one longer
    {{1, 2, 5, 8}, 2, 3, 8, 12, {5}},       // with room behind
    {{3, 2, 9, 7}, 2, 2, 9, 9, {0, 7, 4}},  // a buffer, items of lengths of their own
    {{3, 2, 9, 7}, 2, 2, 9, 11, {3}},       // one position for all
    {{2, 3, 0, 4}, 2, 6, 6, 10, {0, 0}},    // a prompt
    {{2, 4, 5}, 1, 2, 7, 7, {1, 2}},        // zeros behind what a short item has
    {{2, 4}, 1, 1, 4, 4, {3, 0}},           // rows of one element
    {{2, 2, 700, 64}, 2, 1, 700, 700, {699, 5}},
};

TEST(AppendRows, AllTacticsGiveTheReferencesBytes) {
  int ran = 0;
  for (const Tactic* tactic : tactics_for(ir::LayerKind::kGeneric)) {
    if (std::string_view(tactic->name) != "append_rows") continue;
    for (const Case& c : kCases)
      for (const bool in_place : {false, true}) {
        Appending appending(c);
        std::vector<float> expected, found;
        ASSERT_TRUE(appending.run(nullptr, in_place, expected).ok());
        ASSERT_TRUE(appending.run(tactic, in_place, found).ok());
        EXPECT_EQ(found, expected) << isa_name(tactic->isa) << ' ' << c.rows << ' ' << in_place;
        ++ran;
      }
  }
  EXPECT_GE(ran, 16);
}

TEST(AppendRows, RowsThatDoNotFitAreRefused) {
  const Case wrong[] = {{{1, 2, 5, 8}, 2, 1, 5, 5, {5}},
                        {{1, 2, 5, 8}, 2, 1, 9, 9, {6}},
                        {{2, 2, 5, 8}, 2, 1, 6, 6, {1, -1}}};
  for (const Case& c : wrong) {
    std::vector<float> buffer;
    const Status reference = Appending(c).run(nullptr, false, buffer);
    ASSERT_FALSE(reference.ok());
    EXPECT_NE(reference.message().find("item"), std::string::npos);
    for (const Tactic* tactic : tactics_for(ir::LayerKind::kGeneric))
      if (std::string_view(tactic->name) == "append_rows") {
        EXPECT_EQ(Appending(c).run(tactic, false, buffer).message(), reference.message());
      }
  }
}

}  // namespace
}  // namespace camshaft::kernels
