// SPDX-License-Identifier: Apache-2.0
#include "cli/inspect_sparsity.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/terminal.h"
#include "ir/extents.h"
#include "ir/sparsity.h"
#include "onnx/importer.h"

namespace camshaft::cli {
namespace {

double percent_of(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
}

std::string share(int64_t part, int64_t whole) {
  return fmt::format("{:.1f}", percent_of(part, whole));
}

struct Totals {
  int layers = 0, eligible = 0;
  int64_t weights = 0, nonzeros = 0;
};

// A layer's weights: counted, or why they are not.
struct Counted {
  std::string shape;
  std::optional<ir::SparsityCount> zeros;
  std::string verdict;  // what keeps them from being 2:4
};

std::string verdict_of(const ir::SparsityCount& count) {
  if (!count.has_groups()) return "no groups of four input channels";
  if (count.is_2_4()) return "2:4";
  return fmt::format("{} of {} groups are full; {} weights ({:.1f} %) too many", count.full_groups,
                     count.groups, count.excess, percent_of(count.excess, count.weights));
}

Counted count_codes(const ir::Layer& layer) {
  const ir::LowBits& weights = layer.as<ir::LowBits>();
  const ir::Tensor& records = *layer.inputs[1];
  Counted counted{
      fmt::format("{}x{}, {} bits", weights.columns, weights.depth, weights.bits), {}, {}};
  if (records.is_constant()) counted.zeros = ir::sparsity_of(*records.constant, weights);
  counted.verdict = counted.zeros ? verdict_of(*counted.zeros) : "its weights are not constant";
  return counted;
}

Counted count_values(const ir::Layer& layer) {
  const ir::ProductWeights weights = ir::find_product_weights(layer);
  if (!weights.constant) return {"", {}, weights.refusal.text};
  const ir::Tensor& constant = *weights.constant;
  const ir::Extents extents = ir::extents_of(constant.shape);
  Counted counted{fmt::format("{}", fmt::join(extents.begin(), extents.end(), "x")), {}, {}};
  counted.zeros =
      ir::sparsity_of(*constant.constant, constant.type, ir::channel_axis(extents, weights.axis));
  if (!counted.zeros) {
    counted.verdict = fmt::format("weights of type {}", ir::type_name(constant.type));
    return counted;
  }
  const ir::SparsityCount& zeros = *counted.zeros;
  counted.verdict = verdict_of(zeros);
  if (const auto at = ir::first_not_finite(constant.type, constant.constant->view))
    counted.verdict = fmt::format("weight {} is NaN or infinite", *at);
  else if (zeros.has_groups() && !zeros.is_2_4() && zeros.is_4_8())
    counted.verdict = "4:8; for 2:4 " + counted.verdict;
  else if (zeros.has_groups() && !zeros.is_2_4() && zeros.is_list(constant.type))
    counted.verdict = "unstructured; for 2:4 " + counted.verdict;
  return counted;
}

void add_layer(const ir::Layer& layer, Table& table, Totals& totals) {
  const std::string kind(ir::kind_name(layer.kind));
  const bool has_codes = layer.kind == ir::LayerKind::kLowBitMultiply;
  const Counted counted = has_codes ? count_codes(layer) : count_values(layer);
  const std::string& text = counted.verdict;
  ++totals.layers;
  if (!counted.zeros) {
    table.add({layer.name, kind, counted.shape, "", text}, Style::kDim);
    return;
  }
  totals.weights += counted.zeros->weights;
  totals.nonzeros += counted.zeros->nonzeros;
  totals.eligible +=
      text.starts_with("2:4") || text.starts_with("4:8") || text.starts_with("unstructured");
  table.add({layer.name, kind, counted.shape,
             share(counted.zeros->nonzeros, counted.zeros->weights), text},
            counted.zeros->has_groups() ? Style::kPlain : Style::kDim);
}

void add_graph(const ir::Graph& graph, Table& table, Totals& totals) {
  for (const auto& layer : graph.layers()) {
    for (const auto& body : layer->bodies) add_graph(*body, table, totals);
    if (layer->kind == ir::LayerKind::kConvolution ||
        layer->kind == ir::LayerKind::kMatrixMultiply ||
        layer->kind == ir::LayerKind::kLowBitMultiply)
      add_layer(*layer, table, totals);
  }
}

}  // namespace

Status print_model_sparsity(const std::filesystem::path& model) {
  CAMSHAFT_ASSIGN(const auto imported, onnx_import::import_file(model));
  Table table({{"layer", Align::kLeft, 60},
               {"kind"},
               {"weights"},
               {"kept %", Align::kRight},
               {"pattern, or what it misses"}});
  Totals totals;
  add_graph(*imported.graph, table, totals);
  fmt::print("{}", table.text());
  fmt::print("\n{} of {} layers are eligible for sparse tactics; {} % of their weights are not 0\n",
             totals.eligible, totals.layers, share(totals.nonzeros, totals.weights));
  return ok_status();
}

void print_engine_sparsity(const Inspector& inspector) {
  Table table({{"layer", Align::kLeft, 60},
               {"kept %", Align::kRight},
               {"pattern"},
               {"dense us", Align::kRight},
               {"sparse us", Align::kRight},
               {"runs"},
               {"why"}});
  int layers = 0, sparse = 0, picked = 0;
  for (const LayerInfo& layer : inspector.layers()) {
    const LayerSparsity& zeros = layer.sparsity;
    if (zeros.weights == 0) continue;
    ++layers;
    sparse += !zeros.pattern.empty();
    picked += zeros.picked;
    table.add({layer.name, share(zeros.nonzeros, zeros.weights), zeros.pattern,
               microseconds_text(zeros.dense_time_us), microseconds_text(zeros.sparse_time_us),
               zeros.picked ? "sparse" : "dense", zeros.reason},
              zeros.picked            ? Style::kGreen
              : zeros.pattern.empty() ? Style::kDim
                                      : Style::kPlain);
  }
  fmt::print("{}", table.text());
  fmt::print("\n{} layers with constant weights, {} of them sparse, {} run so\n", layers, sparse,
             picked);
}

}  // namespace camshaft::cli
