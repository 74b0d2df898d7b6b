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

// What keeps weights from being 2:4.
std::string verdict_of(const ir::SparsityCount& count) {
  if (!count.has_groups()) return "no groups of four input channels";
  if (count.is_2_4()) return "2:4";
  return fmt::format("{} of {} groups are full; {} weights ({:.1f} %) too many", count.full_groups,
                     count.groups, count.excess, percent_of(count.excess, count.weights));
}

// The same, and what other zeros there are kernels for.
std::string verdict_of(const ir::ProductWeights& weights, const ir::SparsityCount& count) {
  std::string misses = verdict_of(count);
  if (weights.codes || !count.has_groups()) return misses;
  const ir::Tensor& constant = *weights.constant;
  if (const auto at = ir::first_not_finite(constant.type, constant.constant->view))
    return fmt::format("weight {} is NaN or infinite", *at);
  if (count.is_2_4()) return misses;
  if (count.is_4_8()) return "4:8; for 2:4 " + misses;
  return count.is_list(constant.type) ? "unstructured; for 2:4 " + misses : misses;
}

std::string shape_of(const ir::ProductWeights& weights) {
  if (const ir::LowBits* codes = weights.codes)
    return fmt::format("{}x{}, {} bits", codes->columns, codes->depth, codes->bits);
  return fmt::format("{}", fmt::join(ir::extents_of(weights.constant->shape), "x"));
}

void add_layer(const ir::Layer& layer, Table& table, Totals& totals) {
  const ir::ProductWeights weights = ir::find_product_weights(layer);
  const std::string kind(ir::kind_name(layer.kind));
  ++totals.layers;
  if (!weights.constant) {
    table.add({layer.name, kind, "", "", weights.refusal.text}, Style::kDim);
    return;
  }
  const auto count = ir::sparsity_of(weights);
  const std::string shape = shape_of(weights);
  if (!count) {
    table.add({layer.name, kind, shape, "",
               fmt::format("weights of type {}", ir::type_name(weights.constant->type))},
              Style::kDim);
    return;
  }
  totals.weights += count->weights;
  totals.nonzeros += count->nonzeros;
  const std::string text = verdict_of(weights, *count);
  totals.eligible +=
      text.starts_with("2:4") || text.starts_with("4:8") || text.starts_with("unstructured");
  table.add({layer.name, kind, shape, share(count->nonzeros, count->weights), text},
            count->has_groups() ? Style::kPlain : Style::kDim);
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
