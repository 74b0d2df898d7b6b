// SPDX-License-Identifier: Apache-2.0
#include "fuzz/graphs/random_case.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "fuzz/graphs/graph_maker.h"
#include "ir/rewriter.h"
#include "ir/sparsity.h"

namespace camshaft::fuzz {
namespace {

struct Family {
  MakerTable (*rows)();
  int weight;
};
constexpr Family kFamilies[] = {
    {pointwise_makers, 100}, {movement_makers, 100}, {product_makers, 100},  {reduction_makers, 60},
    {index_makers, 40},      {quantized_makers, 60}, {late_makers, 30},      {control_makers, 12},
    {generic_makers, 40},    {pattern_makers, 60},   {recurrence_makers, 8}, {learning_makers, 16},
    {operator_makers, 20},   {number_makers, 20},
};

std::map<std::string, long>& counts() {
  static std::map<std::string, long> made;
  return made;
}

constexpr uint64_t kPruned = 4;  // one of so many graphs has 2:4 weights
constexpr uint64_t kNarrow = 4;  // one of so many has weights of 16 bits

void prune_products(ir::Graph& graph) {
  ir::Rewriter rewriter(graph, "Prune", nullptr);
  for (const auto& layer : graph.layers()) {
    const ir::ProductWeights weights = ir::find_product_weights(*layer);
    if (ir::refuse_pruning(weights)) continue;
    rewriter.set_constant(weights.constant,
                          ir::pruned_2_4(weights, ir::KeepRule::kMagnitude).bytes);
  }
}

// Weights of floats lose the bits that half precision or bfloat16 does not have.
void narrow_products(ir::Graph& graph, bool to_half) {
  constexpr uint32_t kHalfDropped = 13, kBfloat16Dropped = 16;
  constexpr float kLeastNormalHalf = 6.103515625e-05F;
  ir::Rewriter rewriter(graph, "Narrow", nullptr);
  for (const auto& layer : graph.layers()) {
    const ir::ProductWeights weights = ir::find_product_weights(*layer);
    if (weights.refusal || weights.constant->type != ir::DataType::kFloat) continue;
    std::vector<std::byte> bytes;
    for (const float value : weights.constant->values<float>()) {
      const bool vanishes = to_half && std::abs(value) < kLeastNormalHalf;
      const uint32_t bits = vanishes ? 0 : std::bit_cast<uint32_t>(value);
      const uint32_t dropped = to_half ? kHalfDropped : kBfloat16Dropped;
      const uint32_t kept = bits >> dropped << dropped;
      const auto* first = reinterpret_cast<const std::byte*>(&kept);
      bytes.insert(bytes.end(), first, first + sizeof kept);
    }
    rewriter.set_constant(weights.constant, std::move(bytes));
  }
}

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {
    test_.graph = std::make_unique<ir::Graph>("fuzz");
  }

  Case make() {
    choose_shapes();
    GraphMaker maker(*test_.graph, random_, bindings());
    add_inputs(maker);
    choose_makers();
    const auto wanted = 3 + static_cast<int>(below(10));
    for (int tries = 0; maker.layers() < wanted && tries < 6 * wanted; ++tries) {
      const MakerRow& row = any_row();
      if (row.make(maker)) ++counts()[row.name];
    }
    if (maker.layers() == 0) maker.unary(PointOp::kIdentity, maker.tensors().back());
    choose_outputs(maker);
    test_.graph->remove_unused_tensors();
    return std::move(test_);
  }

 private:
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  bool chance(int percent) { return below(100) < percent; }

  void choose_shapes() {
    if (chance(60)) {
      test_.runs = {Point()};
      return;
    }
    for (const char* name : {"n", "h", "t"}) {
      if (chance(test_.symbols.empty() ? 20 : 60)) continue;
      SymbolRange range{name, 0, 0, 0};
      range.min = chance(8) ? 0 : 1 + below(3);
      range.opt = std::max<int64_t>(range.min, 1) + below(5);
      range.max = range.opt + below(5);
      test_.symbols.push_back(range);
    }
    Point min, opt, max;
    for (const SymbolRange& range : test_.symbols) {
      min.push_back(range.min);
      opt.push_back(range.opt);
      max.push_back(range.max);
    }
    test_.runs = {opt, max, min, opt};
    if (test_.symbols.empty()) {
      test_.runs = {Point()};
      return;
    }
    std::rotate(test_.runs.begin(), test_.runs.begin() + below(3), test_.runs.end());
  }

  std::vector<runtime::Bindings> bindings() {
    std::vector<runtime::Bindings> all(test_.runs.size());
    for (size_t run = 0; run < all.size(); ++run)
      for (size_t k = 0; k < test_.symbols.size(); ++k) {
        const Dim dim = test_.graph->symbols().input(test_.symbols[k].name);
        all[run].values.resize(test_.graph->symbols().size());
        all[run].bound.resize(test_.graph->symbols().size());
        all[run].values[dim.symbol_id()] = test_.runs[run][k];
        all[run].bound[dim.symbol_id()] = true;
      }
    return all;
  }

  Dim any_extent(size_t d, size_t rank) {
    const bool channels = rank >= 3 && d == 1;
    if (!channels && !test_.symbols.empty() && chance(d == 0 ? 70 : 35))
      return test_.graph->symbols().input(
          test_.symbols[static_cast<size_t>(below(static_cast<int64_t>(test_.symbols.size())))]
              .name);
    if (channels) return chance(15) ? 15 + below(20) : 1 + below(9);
    if (d == 0 && rank >= 3) return 1 + below(2);
    if (chance(1)) return 0;
    return chance(6) ? 20 + below(50) : 1 + below(9);
  }

  Tensor* add_input(GraphMaker& maker, DataType type, const char* prefix, size_t rank) {
    Shape shape;
    for (size_t d = 0; d < rank; ++d) shape.push_back(any_extent(d, rank));
    int64_t elements = 1;  // six large extents would take minutes
    for (Dim& dim : shape) {
      if (!dim.is_known() || dim.extent() == 0) continue;
      if (elements * dim.extent() > 1 << 16) dim = Dim(1);
      elements *= dim.extent();
    }
    return maker.input(fmt::format("{}{}", prefix, test_.graph->inputs().size()), type, shape);
  }

  void add_inputs(GraphMaker& maker) {
    // Every symbol has to be in the shape of some input.
    const auto count = 1 + below(3);
    for (int64_t k = 0; k < count; ++k) {
      const auto rank = static_cast<size_t>(chance(45) ? 4 : chance(50) ? 3 : below(7));
      if (chance(75))
        add_input(maker, DataType::kFloat, chance(70) ? "x" : "k", rank);
      else
        add_input(maker,
                  maker.pick({DataType::kInt64, DataType::kInt32, DataType::kBool, DataType::kUInt8,
                              DataType::kInt8}),
                  chance(50) ? "i" : "p", rank);
    }
    for (const SymbolRange& range : test_.symbols) {
      const Dim dim = test_.graph->symbols().input(range.name);
      bool used = false;
      for (const Tensor* input : test_.graph->inputs())
        used |= std::count(input->shape.begin(), input->shape.end(), dim) > 0;
      if (!used)
        maker.input(fmt::format("x{}", test_.graph->inputs().size()), DataType::kFloat,
                    {dim, Dim(1 + below(8))});
    }
    std::vector<std::vector<Value>> values(test_.graph->inputs().size());
    for (size_t run = 0; run < test_.runs.size(); ++run) {
      std::vector<Value> made = inputs_of(test_, run);
      for (size_t k = 0; k < made.size(); ++k) values[k].push_back(std::move(made[k]));
    }
    for (size_t k = 0; k < values.size(); ++k)
      maker.adopt(test_.graph->inputs()[k], std::move(values[k]), true);
  }

  // Each graph draws from some of the makers only: mixtures of few find more than mixtures of all.
  void choose_makers() {
    for (const Family& family : kFamilies) {
      const MakerTable rows = family.rows();
      int total = 0;
      for (const MakerRow& row : rows) total += row.weight;
      if (chance(35)) continue;
      for (const MakerRow& row : rows)
        if (chance(60)) weighted_.push_back({&row, family.weight * row.weight * 100 / total + 1});
    }
    if (weighted_.empty())
      for (const MakerRow& row : pointwise_makers()) weighted_.push_back({&row, row.weight});
  }

  const MakerRow& any_row() {
    int64_t total = 0;
    for (const auto& [row, weight] : weighted_) total += weight;
    int64_t chosen = below(total);
    for (const auto& [row, weight] : weighted_)
      if ((chosen -= weight) < 0) return *row;
    return *weighted_.back().first;
  }

  // What nobody reads, and some of what is read as well. Network outputs are made by layers.
  void choose_outputs(GraphMaker& maker) {
    std::vector<Tensor*> outputs;
    for (Tensor* tensor : maker.tensors())
      if (tensor->producer && (tensor->consumers.empty() || chance(8))) outputs.push_back(tensor);
    std::vector<Tensor*> given;  // inputs and constants
    for (const auto& tensor : test_.graph->tensors())
      if (!tensor->producer && chance(2)) given.push_back(tensor.get());
    for (Tensor* tensor : given)
      if (tensor->is_constant() || test_.graph->is_output(tensor) || !tensor->consumers.empty())
        outputs.push_back(maker.unary(PointOp::kIdentity, tensor));
    std::erase(outputs, nullptr);
    if (chance(30)) std::shuffle(outputs.begin(), outputs.end(), random_);
    if (outputs.empty()) outputs.push_back(maker.tensors().back());
    for (Tensor* tensor : outputs) test_.graph->add_output(tensor);
  }

  Random random_;
  Case test_;
  std::vector<std::pair<const MakerRow*, int>> weighted_;
};

}  // namespace

Case random_case(uint64_t seed) {
  Case test = Generator(seed * 0x9e3779b97f4a7c15u + 1).make();
  if (seed % kPruned == 1) prune_products(*test.graph);
  if (seed % kNarrow == 2) narrow_products(*test.graph, seed / kNarrow % 2 == 0);
  return test;
}

const std::map<std::string, long>& maker_counts() {
  return counts();
}

}  // namespace camshaft::fuzz
