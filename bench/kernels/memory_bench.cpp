// SPDX-License-Identifier: Apache-2.0
// Times the kernels that are bound by memory (pointwise, depthwise, pooling, reductions,
// normalization, copies …) on layers of known networks: microseconds, GB/s of inputs and outputs,
// percent of one thread's read rate from memory (above 100 where caches hold the tensors), and the
// cost model's prediction.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "ir/program.h"
#include "kernels/prepared.h"
#include "kernels/probe.h"

namespace camshaft::kernels {
namespace {

using Clock = std::chrono::steady_clock;
using ir::Extents;
using ir::LayerKind;

struct Options {
  std::string layers, tactics, isa = "all";
  int threads = 1;
  double seconds = 0.03;
};

struct BenchTensor {
  Extents extents;
  DataType type = DataType::kFloat;
  bool is_data = true;
};

struct BenchLayer {
  std::string name;
  LayerKind kind;
  ir::Attrs attrs;
  std::vector<BenchTensor> inputs;
  BenchTensor output;
};

// --- layers
BenchLayer pointwise(std::string name, const Extents& shape, int inputs, const char* program,
                     std::vector<Extents> others = {}) {
  BenchLayer layer{std::move(name),
                   LayerKind::kPointWise,
                   ir::PointWiseAttrs{ir::parse_program(inputs, program).value()},
                   {{shape}},
                   {shape}};
  for (const Extents& other : others) layer.inputs.push_back({other});
  return layer;
}

// `types` of the inputs, all of one shape.
BenchLayer codes(std::string name, const Extents& shape, const std::vector<DataType>& types,
                 DataType out, const char* program) {
  BenchLayer layer = pointwise(std::move(name), shape, static_cast<int>(types.size()), program);
  layer.inputs.clear();
  for (const DataType type : types) layer.inputs.push_back({shape, type});
  layer.output.type = out;
  return layer;
}

BenchLayer depthwise(std::string name, int64_t channels, int64_t size, int64_t kernel,
                     int64_t stride, int64_t dilation = 1, const char* epilogue = "v1 = relu v0") {
  ir::ConvolutionAttrs attrs;
  const int64_t pad = kernel / 2 * dilation,
                out = (size + 2 * pad - (kernel - 1) * dilation - 1) / stride + 1;
  attrs.kernel = {kernel, kernel}, attrs.stride = {stride, stride},
  attrs.dilation = {dilation, dilation};
  attrs.pre_padding = attrs.post_padding = {pad, pad};
  attrs.groups = channels;
  attrs.epilogue = ir::parse_program(1, epilogue).value();
  return {std::move(name),
          LayerKind::kConvolution,
          attrs,
          {{{1, channels, size, size}},
           {{channels, 1, kernel, kernel}, DataType::kFloat, false},
           {{channels}, DataType::kFloat, false}},
          {{1, channels, out, out}}};
}

// uint8 to uint8, with multipliers, ReLU6 and a requantization.
BenchLayer depthwise_u8(std::string name, int64_t channels, int64_t size, int64_t kernel,
                        int64_t stride, int64_t dilation = 1) {
  BenchLayer layer = depthwise(std::move(name), channels, size, kernel, stride, dilation, "");
  auto& attrs = std::get<ir::ConvolutionAttrs>(layer.attrs);
  attrs.zero_point = 113;
  attrs.type = DataType::kUInt8;
  attrs.epilogue = ir::parse_program(2,
                                     "v2 = mul v0 v1; v3 = clip v2 0 6; v4 = const 41; "
                                     "v5 = mul v3 v4; v6 = round v5; v7 = const 3; v8 = add v6 v7")
                       .value();
  layer.inputs[0].type = DataType::kUInt8, layer.inputs[1].type = DataType::kInt8;
  layer.inputs[2].type = DataType::kInt32;
  layer.inputs.push_back({{channels, 1, 1}, DataType::kFloat, false});
  layer.output.type = DataType::kUInt8;
  return layer;
}

BenchLayer pool(std::string name, ir::PoolingType type, int64_t channels, int64_t size,
                int64_t kernel, int64_t stride, int64_t pad, DataType data = DataType::kFloat) {
  ir::PoolingAttrs attrs;
  attrs.type = type, attrs.kernel = {kernel, kernel}, attrs.stride = {stride, stride},
  attrs.dilation = {1, 1};
  attrs.pre_padding = attrs.post_padding = {pad, pad};
  attrs.global = kernel == 0;
  const int64_t out = kernel == 0 ? 1 : (size + 2 * pad - kernel) / stride + 1;
  return {std::move(name),
          LayerKind::kPooling,
          attrs,
          {{{1, channels, size, size}, data}},
          {{1, channels, out, out}, type == ir::PoolingType::kMax ? data : DataType::kFloat}};
}

BenchLayer transpose(std::string name, const Extents& shape, const ir::Ints& permutation) {
  ir::ShuffleAttrs attrs;
  attrs.first_transpose = permutation;
  Extents out = shape;
  for (size_t d = 0; d < permutation.size(); ++d) out[d] = shape[permutation[d]];
  return {std::move(name), LayerKind::kShuffle, attrs, {{shape}}, {out}};
}

BenchLayer slice(std::string name, const Extents& shape, const Extents& start, const Extents& size,
                 const ir::Ints& step) {
  ir::SliceAttrs attrs;
  for (size_t d = 0; d < shape.size(); ++d)
    attrs.start.push_back(start[d]), attrs.size.push_back(size[d]);
  attrs.step = step;
  return {std::move(name), LayerKind::kSlice, attrs, {{shape}}, {size}};
}

BenchLayer lines(std::string name, int64_t count, int64_t size) {
  ir::NormalizationAttrs attrs;
  attrs.axis = 1;
  return {std::move(name),
          LayerKind::kNormalization,
          attrs,
          {{{count, size}}, {{size}, DataType::kFloat, false}, {{size}, DataType::kFloat, false}},
          {{count, size}}};
}

std::vector<BenchLayer> bench_layers() {
  ir::NormalizationAttrs instance;
  instance.kind = ir::NormKind::kInstance;
  ir::ResizeAttrs nearest, linear;
  nearest.scales = {1, 1, 2, 2}, nearest.sizes = {1, 64, 52, 52},
  nearest.transform = ir::CoordinateTransform::kAsymmetric;
  nearest.rounding = ir::NearestRounding::kFloor;
  linear = nearest;
  linear.mode = ir::ResizeMode::kLinear, linear.transform = ir::CoordinateTransform::kHalfPixel;
  const Extents map = {1, 64, 52, 52};
  constexpr DataType kF = DataType::kFloat, kU = DataType::kUInt8;
  return {
      pointwise("silu", map, 1, "v1 = silu v0 1"),
      pointwise("add+relu", map, 2, "v2 = add v0 v1; v3 = relu v2", {map}),
      pointwise("gate per channel", map, 2, "v2 = mul v0 v1", {{1, 64, 1, 1}}),
      pointwise("gelu of tokens", {1, 128, 3072}, 1, "v1 = gelu v0"),
      pointwise("tiny add", {1, 64}, 2, "v2 = add v0 v1", {{1, 64}}),
      pointwise("sigmoid", {1, 85, 52, 52}, 1, "v1 = sigmoid v0"),
      codes("u8 to float", map, {kU}, kF,
            "v1 = const 113; v2 = sub v0 v1; v3 = const 0.02; "
            "v4 = mul v2 v3"),
      codes("float to u8", map, {kF}, kU,
            "v1 = const 80.3; v2 = mul v0 v1; v3 = round v2; "
            "v4 = const 113; v5 = add v3 v4"),
      codes("float to u8, divided", map, {kF}, kU,
            "v1 = const 0.013; v2 = div v0 v1; "
            "v3 = round v2; v4 = const 113; v5 = add v3 v4"),
      codes("u8 requantize", map, {kU}, kU, "v1 = const 0.73; v2 = const 17.5; v3 = fma v0 v1 v2"),
      codes("u8 silu", map, {kU}, kU,
            "v1 = const 113; v2 = sub v0 v1; v3 = const 0.02; "
            "v4 = mul v2 v3; v5 = silu v4 1; v6 = const 51; v7 = mul v5 v6; v8 = round v7; "
            "v9 = const 14; v10 = add v8 v9"),
      codes("u8 silu to float", map, {kU}, kF,
            "v1 = const 113; v2 = sub v0 v1; "
            "v3 = const 0.02; v4 = mul v2 v3; v5 = silu v4 1"),
      codes("u8 residual", map, {kU, kU}, kU,
            "v2 = const 0.031; v3 = mul v0 v2; "
            "v4 = const 0.017; v5 = const -2.2; v6 = fma v1 v4 v5; v7 = add v3 v6; v8 = relu v7; "
            "v9 = const 31.3; v10 = mul v8 v9; v11 = round v10"),
      codes("u8 gate", map, {kU, kU}, kU,
            "v2 = const 0.031; v3 = mul v0 v2; v4 = const 0.017; "
            "v5 = mul v1 v4; v6 = mul v3 v5; v7 = const 99; v8 = mul v6 v7; v9 = round v8"),
      depthwise("yolox.dw3", 64, 52, 3, 1, 1, "v1 = silu v0 1"),
      depthwise("mbv2.dw3/2", 96, 112, 3, 2),
      depthwise("yamnet.dw3 8x8", 128, 8, 3, 1),
      depthwise("yamnet.dw3", 32, 40, 3, 1),
      depthwise("yamnet.dw3/2", 64, 40, 3, 2),
      depthwise("blazeface.dw3", 24, 128, 3, 1),
      depthwise("mbv2.dw3 14", 384, 14, 3, 1),
      depthwise("mbv3.dw5", 120, 28, 5, 1),
      depthwise("mbv3.dw5 7", 960, 7, 5, 1),
      depthwise("deeplab.dw3 dilated", 480, 33, 3, 1, 2),
      depthwise_u8("u8 yolox.dw3", 64, 52, 3, 1),
      depthwise_u8("u8 mbv2.dw3/2", 96, 112, 3, 2),
      depthwise_u8("u8 mbv2.dw3 14", 384, 14, 3, 1),
      depthwise_u8("u8 mbv3.dw5", 120, 28, 5, 1),
      depthwise_u8("u8 mbv3.dw5 7", 960, 7, 5, 1),
      depthwise_u8("u8 deeplab.dw3 dilated", 480, 33, 3, 1, 2),
      pool("resnet.maxpool", ir::PoolingType::kMax, 64, 112, 3, 2, 1),
      pool("u8 resnet.maxpool", ir::PoolingType::kMax, 64, 112, 3, 2, 1, kU),
      pool("u8 yolox.spp5", ir::PoolingType::kMax, 96, 13, 5, 1, 2, kU),
      pool("u8 yolox.spp13", ir::PoolingType::kMax, 96, 13, 13, 1, 6, kU),
      pool("u8 average 2x2", ir::PoolingType::kAverage, 128, 28, 2, 2, 0, kU),
      pool("u8 global average 7", ir::PoolingType::kAverage, 1280, 7, 0, 1, 0, kU),
      pool("yolox.spp5", ir::PoolingType::kMax, 96, 13, 5, 1, 2),
      pool("yolox.spp13", ir::PoolingType::kMax, 96, 13, 13, 1, 6),
      pool("average 2x2", ir::PoolingType::kAverage, 128, 28, 2, 2, 0),
      pool("global average 7", ir::PoolingType::kAverage, 1280, 7, 0, 1, 0),
      pool("global average 56", ir::PoolingType::kAverage, 64, 56, 0, 1, 0),
      {"mean of tokens",
       LayerKind::kReduce,
       ir::ReduceAttrs{ir::ReduceOp::kMean, {2}, true},
       {{{1, 128, 768}}},
       {{1, 128, 1}}},
      {"softmax of attention",
       LayerKind::kSoftMax,
       ir::SoftMaxAttrs{3, 3},
       {{{1, 8, 128, 128}}},
       {{1, 8, 128, 128}}},
      {"softmax 2 classes",
       LayerKind::kSoftMax,
       ir::SoftMaxAttrs{2, 2},
       {{{1, 4420, 2}}},
       {{1, 4420, 2}}},
      {"softmax 6625",
       LayerKind::kSoftMax,
       ir::SoftMaxAttrs{2, 2},
       {{{1, 40, 6625}}},
       {{1, 40, 6625}}},
      lines("layer norm", 128, 768),
      lines("layer norm of 4", 77618, 4),
      lines("layer norm of 16", 4096, 16),
      lines("layer norm of 32", 2048, 32),
      lines("layer norm of 48", 2048, 48),
      lines("layer norm of 256", 394, 256),
      lines("layer norm of 4096", 1, 4096),
      {"instance norm",
       LayerKind::kNormalization,
       instance,
       {{map}, {{64}, DataType::kFloat, false}, {{64}, DataType::kFloat, false}},
       {map}},
      {"resize nearest x2", LayerKind::kResize, nearest, {{{1, 64, 26, 26}}}, {map}},
      {"resize linear x2", LayerKind::kResize, linear, {{{1, 64, 26, 26}}}, {map}},
      {"u8 resize nearest x2", LayerKind::kResize, nearest, {{{1, 64, 26, 26}, kU}}, {map, kU}},
      {"u8 resize linear x2", LayerKind::kResize, linear, {{{1, 64, 26, 26}, kU}}, {map, kU}},
      {"u8 reformat", LayerKind::kReformat, ir::NoAttrs(), {{map, kU}}, {map, kU}},
      {"u8 reformat image",
       LayerKind::kReformat,
       ir::NoAttrs(),
       {{{1, 3, 416, 416}, kU}},
       {{1, 3, 416, 416}, kU}},
      {"u8 concat",
       LayerKind::kConcatenation,
       ir::AxisAttrs{1},
       {{map, kU}, {map, kU}},
       {{1, 128, 52, 52}, kU}},
      transpose("NCHW to NHWC", {1, 64, 52, 52}, {0, 2, 3, 1}),
      transpose("NCHW to NHWC image", {1, 3, 416, 416}, {0, 2, 3, 1}),
      transpose("NHWC to NCHW image", {1, 416, 416, 3}, {0, 3, 1, 2}),
      transpose("heads", {1, 128, 8, 64}, {0, 2, 1, 3}),
      {"reformat", LayerKind::kReformat, ir::NoAttrs(), {{map}}, {map}},
      slice("focus", {1, 3, 416, 416}, {0, 0, 0, 1}, {1, 3, 208, 208}, {1, 1, 2, 2}),
      slice("half the channels", {1, 128, 52, 52}, {0, 64, 0, 0}, map, {1, 1, 1, 1}),
      {"concat", LayerKind::kConcatenation, ir::AxisAttrs{1}, {{map}, {map}}, {{1, 128, 52, 52}}},
      {"pad",
       LayerKind::kPad,
       ir::PadAttrs{ir::PadMode::kConstant, {0, 0, 0, 0}, {0, 0, 1, 1}, 0},
       {{map}},
       {{1, 64, 53, 53}}},
      {"depth to space",
       LayerKind::kDepthToSpace,
       ir::DepthSpaceAttrs{3, false},
       {{{1, 9, 224, 224}}},
       {{1, 1, 672, 672}}},
      {"quantize",
       LayerKind::kQuantize,
       ir::QuantizeAttrs{1, 0, DataType::kInt8},
       {{map}, {{}, DataType::kFloat, false}},
       {map, DataType::kInt8}},
      {"dequantize",
       LayerKind::kDequantize,
       ir::QuantizeAttrs{1, 0, DataType::kInt8},
       {{map, DataType::kInt8}, {{}, DataType::kFloat, false}},
       {map}},
      {"cast to int64",
       LayerKind::kCast,
       ir::CastAttrs{DataType::kInt64},
       {{map}},
       {map, DataType::kInt64}},
  };
}

// --- running
struct Free {
  void operator()(void* p) const { std::free(p); }
};
using Bytes = std::unique_ptr<std::byte, Free>;

// Aligned as an engine's arena is; floats of plain values, bytes of small ones.
Bytes allocate(size_t bytes) {
  const size_t rounded = (bytes + 4096) / 64 * 64;
  Bytes memory(static_cast<std::byte*>(std::aligned_alloc(64, rounded)));
  auto* floats = reinterpret_cast<float*>(memory.get());
  for (size_t k = 0; k < rounded / sizeof(float); ++k)
    floats[k] = static_cast<float>(k % 997) / 500 - 0.8995f;  // no zeros
  return memory;
}

struct Placed {
  Bytes memory;
  TensorView view;
  ir::ConstantData constant;
};

Placed place(const BenchTensor& tensor, Format format) {
  Placed placed;
  const int64_t bytes =
      static_cast<int64_t>(ir::bytes_for(tensor.type, ir::element_count(tensor.extents)));
  placed.memory = allocate(static_cast<size_t>(bytes));
  const bool formatted = tensor.is_data && tensor.extents.size() >= 3;
  placed.view = make_view(placed.memory.get(), tensor.type, formatted ? format : Format::kLinear,
                          tensor.extents);
  placed.constant.view = {placed.memory.get(), static_cast<size_t>(bytes)};
  return placed;
}

ProblemTensor describe(const BenchTensor& tensor, const Placed& placed) {
  return {true, tensor.type, placed.view.format, tensor.extents,
          tensor.is_data ? nullptr : &placed.constant};
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Best time of a run: batches of at least 20 us, for the given time in all.
double best_seconds(const BoundKernel& kernel, double seconds) {
  static_cast<void>(kernel.run());
  int batch = 1;
  double best = 1e9;
  for (const Clock::time_point begin = Clock::now(); seconds_since(begin) < seconds;) {
    const Clock::time_point start = Clock::now();
    for (int k = 0; k < batch; ++k) static_cast<void>(kernel.run());
    const double elapsed = seconds_since(start);
    best = std::min(best, elapsed / batch);
    if (elapsed < 20e-6) batch *= 2;
  }
  return best;
}

void time_tactic(const Options& options, const BenchLayer& layer, const Tactic& tactic, Format in,
                 Format out, double read_rate) {
  ir::Layer own;
  own.kind = layer.kind;
  own.attrs = layer.attrs;
  std::vector<Placed> inputs;
  Problem problem;
  problem.layer = &own;
  problem.threads = options.threads;
  double bytes = 0;
  for (const BenchTensor& tensor : layer.inputs) inputs.push_back(place(tensor, in));
  for (size_t k = 0; k < inputs.size(); ++k) {
    problem.inputs.push_back(describe(layer.inputs[k], inputs[k]));
    bytes += static_cast<double>(inputs[k].constant.view.size());
  }
  const Placed output = place(layer.output, out);
  problem.outputs.push_back(describe(layer.output, output));
  bytes += static_cast<double>(output.constant.view.size());
  if (!tactic.refusal(problem).empty()) return;

  const Bytes packed = allocate(tactic.packed_bytes(problem));
  if (tactic.packed_bytes(problem) > 0) tactic.pack(problem, packed.get());
  std::vector<TensorView> in_views, out_views = {output.view};
  for (const Placed& input : inputs) in_views.push_back(input.view);
  ThreadPool pool(options.threads);
  KernelArgs args;
  args.layer = &own;
  args.inputs = in_views, args.outputs = out_views;
  args.packed = packed.get();
  args.pool = &pool;
  BoundKernel kernel(tactic, args);
  const Bytes workspace = allocate(kernel.workspace_bytes());
  kernel.set_workspace(workspace.get());
  const double seconds = best_seconds(kernel, options.seconds);
  std::printf("%-24s %-34s %-7s %c>%c %9.2f us %7.1f GB/s %5.0f%%  predicted %8.2f us\n",
              layer.name.c_str(), tactic.name, std::string(isa_name(tactic.isa)).c_str(),
              in == Format::kLinear ? 'L' : 'C', out == Format::kLinear ? 'L' : 'C', seconds * 1e6,
              bytes / seconds / 1e9, bytes / seconds / 1e7 / read_rate, tactic.cost_us(problem));
}

std::vector<std::pair<Format, Format>> formats_of(FormatRule rule) {
  constexpr Format kL = Format::kLinear, kC = Format::kChannelLast;
  switch (rule) {
    case FormatRule::kLinear:
      return {{kL, kL}};
    case FormatRule::kChannelLast:
      return {{kC, kC}};
    case FormatRule::kLinearToChannelLast:
      return {{kL, kC}};
    case FormatRule::kChannelLastToLinear:
      return {{kC, kL}};
    case FormatRule::kSame:
      return {{kL, kL}, {kC, kC}};
    default:
      return {{kL, kL}, {kC, kC}, {kL, kC}, {kC, kL}};
  }
}

void run(const Options& options) {
  const double read_rate = measure_read_bandwidth();
  std::printf("reading from memory: %.1f GB/s, FMA peak %.1f GMAC/s\n", read_rate,
              measure_fma_peak(active_isa()));
  for (const BenchLayer& layer : bench_layers()) {
    if (layer.name.find(options.layers) == std::string::npos) continue;
    for (const Tactic* tactic : tactics_for(layer.kind)) {
      if (std::string(tactic->name).find(options.tactics) == std::string::npos) continue;
      if (options.isa != "all" && options.isa != isa_name(tactic->isa)) continue;
      for (const auto& [in, out] : formats_of(tactic->formats))
        time_tactic(options, layer, *tactic, in, out, read_rate);
    }
  }
}

}  // namespace
}  // namespace camshaft::kernels

int main(int argc, char** argv) {
  camshaft::kernels::Options options;
  CLI::App app{"Times the kernels that are bound by memory."};
  app.add_option("--layer", options.layers, "only layers whose name contains this");
  app.add_option("--tactic", options.tactics, "only tactics whose name contains this");
  app.add_option("--isa", options.isa, "scalar, avx2, avx512 or all");
  app.add_option("--threads", options.threads, "threads of the pool");
  app.add_option("--seconds", options.seconds, "time spent on each tactic");
  CLI11_PARSE(app, argc, argv);
  camshaft::kernels::run(options);
}
