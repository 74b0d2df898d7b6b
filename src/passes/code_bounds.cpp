// SPDX-License-Identifier: Apache-2.0
// CodeBounds: products learn how large the uint8 codes they read can be (x_maximum), from the
// program that makes them and through layers that move them. Kernels multiply small codes faster
// where the processor's products of bytes would saturate. Changes no value.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "ir/kind_traits.h"
#include "passes/intervals.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/quantization.h"

namespace camshaft::passes {

using namespace ir;

namespace {

constexpr int64_t kLargest = 255;

class Bounds {
 public:
  // No code of a uint8 tensor is larger.
  int64_t of(const Tensor* tensor) {
    if (tensor->is_constant() || !tensor->producer || tensor->type != DataType::kUInt8)
      return kLargest;
    const auto [at, is_new] = known_.try_emplace(tensor, kLargest);
    if (is_new) known_[tensor] = bound(*tensor->producer);
    return known_[tensor];
  }

 private:
  int64_t bound(const Layer& producer) {
    if (producer.kind == LayerKind::kPointWise || makes_codes(producer)) {
      const double high = std::nearbyint(result_interval(producer).high);
      return std::isnan(high) ? kLargest
                              : static_cast<int64_t>(std::clamp<double>(high, 0, kLargest));
    }
    if (producer.kind == LayerKind::kConcatenation) {
      int64_t largest = 0;
      for (const Tensor* input : producer.inputs) largest = std::max(largest, of(input));
      return largest;
    }
    if (!moves_elements(producer)) return kLargest;
    const auto* pad = std::get_if<PadAttrs>(&producer.attrs);
    const double value = pad ? std::nearbyint(pad->value) : 0;
    return std::max(of(producer.inputs[0]),
                    static_cast<int64_t>(std::clamp<double>(value, 0, kLargest)));
  }
  std::map<const Tensor*, int64_t> known_;
};

int64_t* bound_of(Rewriter& rewriter, Layer* layer) {
  if (layer->kind == LayerKind::kConvolution || layer->kind == LayerKind::kDeconvolution)
    return &rewriter.attrs<ConvolutionAttrs>(layer).x_maximum;
  if (layer->kind == LayerKind::kMatrixMultiply)
    return &rewriter.attrs<MatrixMultiplyAttrs>(layer).a_maximum;
  return nullptr;
}

}  // namespace

int code_bounds(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "CodeBounds", records);
  Bounds bounds;
  for (const auto& layer : graph.layers()) {
    int64_t* stored = bound_of(rewriter, layer.get());
    if (!stored || layer->inputs[0]->type != DataType::kUInt8) continue;
    const int64_t bound = bounds.of(layer->inputs[0]);
    if (bound >= *stored) continue;
    rewriter.running(*layer);
    rewriter.applied(Action::kEdit, *layer,
                     fmt::format("Codes that {} reads end at {}", layer->name, bound));
    *stored = bound;
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
