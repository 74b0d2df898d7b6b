// SPDX-License-Identifier: Apache-2.0
// Sparse tactics beside dense ones on the same weights, of int8, floats, bfloat16s or codes of 4
// bits, 2:4 or with any share of zeros: for every layer shape the fastest dense and the fastest
// sparse tactic of this instruction set (CAMSHAFT_ISA), chosen first, then timed in turns. One JSON
// line per layer.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/testing/layer_case.h"

namespace camshaft::kernels {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string layers, only;
  int threads = 1, largest_code = 255, rounds = 15;
  bool floats = false, bf16 = false, low_bits = false;
  double kept = 0;                      // of the weights, without a pattern; 0: 2:4
  std::vector<int64_t> block = {1, 1};  // of weights that stay or go together: channels, filters
};

struct Shape {
  const char *network, *name;
  int64_t ic, size, oc, kernel, stride;  // size 0: a product of `rows` rows
  int64_t rows = 0;
};

// Layers of the networks that occur most, by time.
constexpr Shape kShapes[] = {
    {"ResNet-50", "2.reduce 1x1", 256, 56, 64, 1, 1},
    {"ResNet-50", "2.3x3", 64, 56, 64, 3, 1},
    {"ResNet-50", "2.expand 1x1", 64, 56, 256, 1, 1},
    {"ResNet-50", "3.reduce 1x1", 512, 28, 128, 1, 1},
    {"ResNet-50", "3.3x3", 128, 28, 128, 3, 1},
    {"ResNet-50", "3.expand 1x1", 128, 28, 512, 1, 1},
    {"ResNet-50", "4.reduce 1x1", 1024, 14, 256, 1, 1},
    {"ResNet-50", "4.3x3", 256, 14, 256, 3, 1},
    {"ResNet-50", "4.expand 1x1", 256, 14, 1024, 1, 1},
    {"ResNet-50", "5.reduce 1x1", 2048, 7, 512, 1, 1},
    {"ResNet-50", "5.3x3", 512, 7, 512, 3, 1},
    {"ResNet-50", "5.3x3/2", 512, 14, 512, 3, 2},
    {"ResNet-50", "5.expand 1x1", 512, 7, 2048, 1, 1},
    {"ResNet-50", "fc", 2048, 0, 1000, 1, 1, 1},
    {"BERT-base", "qkv, 128 rows", 768, 0, 768, 1, 1, 128},
    {"BERT-base", "ffn1, 128 rows", 768, 0, 3072, 1, 1, 128},
    {"BERT-base", "ffn2, 128 rows", 3072, 0, 768, 1, 1, 128},
    {"BERT-base", "qkv, 1 row", 768, 0, 768, 1, 1, 1},
    {"BERT-base", "ffn1, 1 row", 768, 0, 3072, 1, 1, 1},
    {"BERT-base", "ffn2, 1 row", 3072, 0, 768, 1, 1, 1},
    {"decoder", "2048 to 8192, 1 row", 2048, 0, 8192, 1, 1, 1},
    {"decoder", "2048 to 8192, 4 rows", 2048, 0, 8192, 1, 1, 4},
    {"MobileNetV2", "expand 1x1", 24, 56, 144, 1, 1},
    {"MobileNetV2", "project 1x1", 144, 56, 24, 1, 1},
    {"MobileNetV2", "expand 1x1.14", 96, 14, 576, 1, 1},
    {"MobileNetV2", "last 1x1", 320, 7, 1280, 1, 1},
    {"YOLOv8s", "3x3.160", 32, 160, 32, 3, 1},
    {"YOLOv8s", "3x3/2", 64, 160, 128, 3, 2},
    {"YOLOv8s", "3x3.80", 64, 80, 64, 3, 1},
    {"YOLOv8s", "1x1.40", 384, 40, 256, 1, 1},
    {"YOLOv8s", "3x3.20", 256, 20, 256, 3, 1},
};

LayerCase make_case(const Shape& s, const Options& options) {
  const auto code = static_cast<uint8_t>(options.largest_code);
  constexpr const char* kEpilogue = "v2 = mul v0 v1; v3 = relu v2";
  constexpr const char* kRelu = "v1 = relu v0";
  if (options.low_bits) return low_bit_case(s.rows, s.oc, s.ic, 32);
  if (s.size == 0 && options.floats) return matmul_case(1, s.rows, s.oc, s.ic, true, false, kRelu);
  if (s.size == 0) return byte_matmul_case(1, s.rows, s.oc, s.ic, true, false, kEpilogue, code);
  const int64_t pad = s.kernel / 2, out = (s.size + 2 * pad - s.kernel) / s.stride + 1;
  const ConvShape shape = {.ic = s.ic,
                           .ih = s.size,
                           .iw = s.size,
                           .oc = s.oc,
                           .oh = out,
                           .ow = out,
                           .kh = s.kernel,
                           .kw = s.kernel,
                           .sh = s.stride,
                           .sw = s.stride,
                           .pad_top = pad,
                           .pad_left = pad};
  if (options.floats) return conv_case(shape, kRelu);
  return byte_conv_case(shape, pad, pad, false, false, kEpilogue, code);
}

double macs_of(const Shape& s) {
  const int64_t pad = s.kernel / 2, out = (s.size + 2 * pad - s.kernel) / s.stride + 1;
  const int64_t rows = s.size == 0 ? s.rows : out * out;
  return static_cast<double>(rows * s.oc) * static_cast<double>(s.ic * s.kernel * s.kernel);
}

double run_once(LayerCase& layer) {
  const Clock::time_point start = Clock::now();
  layer.run();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The least of runs that take `seconds` together.
double least(LayerCase& layer, double seconds) {
  double best = 1e9, spent = run_once(layer);
  for (spent = 0; spent < seconds;) {
    const double time = run_once(layer);
    best = std::min(best, time);
    spent += time;
  }
  return best;
}

void prune(LayerCase& layer, const Options& options) {
  options.kept > 0 ? layer.prune_weights(options.kept, options.block[0], options.block[1])
                   : layer.prune_weights();
}

bool is_sparse(const Tactic& tactic) {
  return std::string_view(tactic.name).find("_sparse") != std::string_view::npos;
}

const Tactic* fastest(const Shape& shape, bool sparse, const Options& options, ThreadPool& pool) {
  const Tactic* best = nullptr;
  double best_time = 1e9;
  const ir::LayerKind kind = options.low_bits  ? ir::LayerKind::kLowBitMultiply
                             : shape.size == 0 ? ir::LayerKind::kMatrixMultiply
                                               : ir::LayerKind::kConvolution;
  LayerCase layer = make_case(shape, options);
  prune(layer, options);
  for (const Tactic* tactic : tactics_for(kind)) {
    if (tactic->isa != active_isa() || is_sparse(*tactic) != sparse) continue;
    if (sparse && std::string_view(tactic->name).find(options.only) == std::string_view::npos)
      continue;
    const DataType precision = options.bf16 ? DataType::kBFloat16 : DataType::kUndefined;
    if (tactic->precision != precision) continue;
    if (!tactic->refusal(layer.problem(*tactic, options.threads)).empty()) continue;
    layer.prepare(*tactic, &pool);
    const double time = least(layer, 0.004);
    if (time >= best_time) continue;
    best = tactic;
    best_time = time;
  }
  return best;
}

void compare(const Shape& shape, const Options& options, ThreadPool& pool) {
  if (options.low_bits && shape.size != 0) return;
  const Tactic* dense = fastest(shape, false, options, pool);
  const Tactic* sparse = fastest(shape, true, options, pool);
  if (!dense || !sparse) return;
  LayerCase dense_case = make_case(shape, options), sparse_case = make_case(shape, options);
  prune(dense_case, options);
  prune(sparse_case, options);
  dense_case.prepare(*dense, &pool);
  sparse_case.prepare(*sparse, &pool);
  std::vector<double> ratios;
  double dense_us = 1e9, sparse_us = 1e9;
  for (int round = 0; round < options.rounds; ++round) {
    const double d = least(dense_case, 0.002), s = least(sparse_case, 0.002);
    dense_us = std::min(dense_us, d * 1e6);
    sparse_us = std::min(sparse_us, s * 1e6);
    ratios.push_back(d / s);
  }
  std::nth_element(ratios.begin(), ratios.begin() + options.rounds / 2, ratios.end());
  std::printf(
      "{\"network\": \"%s\", \"layer\": \"%s\", \"isa\": \"%s\", \"threads\": %d, "
      "\"dense\": \"%s\", \"dense_us\": %.2f, \"sparse\": \"%s\", \"sparse_us\": %.2f, "
      "\"ratio\": %.3f, \"gmacs\": %.1f}\n",
      shape.network, shape.name, isa_name(active_isa()).data(), options.threads, dense->name,
      dense_us, sparse->name, sparse_us, ratios[ratios.size() / 2],
      macs_of(shape) / sparse_us / 1e3);
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("sparse tactics beside dense ones on the same weights");
  app.add_option("--layers", options.layers, "only networks and layers whose name contains this");
  app.add_option("--threads", options.threads, "threads");
  app.add_option("--rounds", options.rounds, "turns of both")->check(CLI::Range(1, 1000));
  app.add_option("--largest-code", options.largest_code,
                 "of the uint8 inputs: 127 as after a ReLU in a symmetric network")
      ->check(CLI::Range(1, 255));
  app.add_flag("--floats", options.floats, "float layers instead of int8");
  CLI::Option* kept =
      app.add_option("--kept", options.kept, "share of the weights that are not zero; else 2:4")
          ->check(CLI::Range(0.0, 1.0));
  app.add_option("--block", options.block, "input and output channels that are zero together")
      ->expected(2)
      ->check(CLI::Range(1, 64))
      ->needs(kept);
  app.add_option("--only", options.only, "only sparse tactics whose name contains this");
  app.add_flag("--bf16", options.bf16, "float layers multiplied in bfloat16: products of few rows");
  app.add_flag("--low-bits", options.low_bits, "products with codes of 4 bits, blocks of 32");
  CLI11_PARSE(app, argc, argv);
  options.floats |= options.bf16;
  ThreadPool pool(options.threads);
  for (const Shape& shape : kShapes) {
    const std::string name = std::string(shape.network) + " " + shape.name;
    if (name.find(options.layers) != std::string::npos) compare(shape, options, pool);
  }
  return 0;
}

}  // namespace
}  // namespace camshaft::kernels

int main(int argc, char** argv) {
  return camshaft::kernels::run(argc, argv);
}
