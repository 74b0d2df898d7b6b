// SPDX-License-Identifier: Apache-2.0
// Times every tactic of every instruction set on layers of known networks, of floats and of bytes:
// GMAC/s, and percent of the peak of such products measured in the same second. A percentage above
// 100 is an algorithm with fewer multiplications (Winograd).
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "kernels/probe.h"
#include "kernels/testing/conv_case.h"
#include "kernels/testing/layer_case.h"

namespace camshaft::kernels {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string layers, tactics, isa = "all", type = "all";
  int threads = 1;
  int largest_code = 255;
  double seconds = 0.05;
  bool verbose = false;
};

struct Layer {
  const char* name;
  ConvCaseSpec spec;
};

struct Product {
  const char* name;
  int64_t batch, m, n, k;
  bool constant, transpose_b;
  const char* epilogue = "";
};

Layer conv(const char* name, int64_t ic, int64_t ih, int64_t iw, int64_t oc, int64_t kernel,
           int64_t stride, const char* epilogue = "v1 = relu v0") {
  Layer layer{name, {}};
  const int64_t pad = kernel / 2;
  layer.spec.shape = {.ic = ic,
                      .ih = ih,
                      .iw = iw,
                      .oc = oc,
                      .kh = kernel,
                      .kw = kernel,
                      .sh = stride,
                      .sw = stride,
                      .pad_top = pad,
                      .pad_left = pad};
  layer.spec.pad_bottom = layer.spec.pad_right = pad;
  layer.spec.epilogue = epilogue;
  return layer;
}

Layer residual(Layer layer) {
  layer.spec.epilogue = "v2 = add v0 v1; v3 = relu v2";
  layer.spec.operands = {OperandKind::kSame};
  return layer;
}

Layer grouped(const char* name, int64_t channels, int64_t size, int64_t kernel, int64_t stride,
              int64_t groups) {
  Layer layer = conv(name, channels, size, size, channels, kernel, stride);
  layer.spec.shape.groups = groups;
  return layer;
}

Layer depthwise(const char* name, int64_t channels, int64_t size, int64_t kernel, int64_t stride) {
  return grouped(name, channels, size, kernel, stride, channels);
}

std::vector<Layer> layers() {
  return {
      conv("resnet.stem 7x7/2", 3, 224, 224, 64, 7, 2),
      conv("resnet50.2.reduce", 256, 56, 56, 64, 1, 1),
      residual(conv("resnet50.2.expand", 64, 56, 56, 256, 1, 1)),
      conv("resnet.2.3x3", 64, 56, 56, 64, 3, 1),
      conv("resnet50.3.reduce", 512, 28, 28, 128, 1, 1),
      residual(conv("resnet50.3.expand", 128, 28, 28, 512, 1, 1)),
      conv("resnet.3.3x3", 128, 28, 28, 128, 3, 1),
      conv("resnet.3.3x3/2", 128, 56, 56, 128, 3, 2),
      conv("resnet50.3.down", 256, 56, 56, 512, 1, 2),
      conv("resnet50.4.reduce", 1024, 14, 14, 256, 1, 1),
      residual(conv("resnet50.4.expand", 256, 14, 14, 1024, 1, 1)),
      conv("resnet.4.3x3", 256, 14, 14, 256, 3, 1),
      conv("resnet50.5.reduce", 2048, 7, 7, 512, 1, 1),
      residual(conv("resnet50.5.expand", 512, 7, 7, 2048, 1, 1)),
      conv("resnet.5.3x3", 512, 7, 7, 512, 3, 1),
      conv("yolov8s.stem", 3, 640, 640, 32, 3, 2, "v1 = silu v0 1"),
      conv("yolov8s.3x3", 64, 160, 160, 64, 3, 1, "v1 = silu v0 1"),
      conv("yolov8n.3x3", 32, 80, 80, 32, 3, 1, "v1 = silu v0 1"),
      conv("yolov8n.3x3.20", 128, 20, 20, 128, 3, 1, "v1 = silu v0 1"),
      conv("yolov8n.1x1", 192, 40, 40, 128, 1, 1, "v1 = silu v0 1"),
      conv("mobilenet.expand", 24, 56, 56, 144, 1, 1, "v1 = clip v0 0 6"),
      conv("mobilenet.project", 144, 56, 56, 24, 1, 1, ""),
      conv("mobilenet.last", 320, 7, 7, 1280, 1, 1, "v1 = clip v0 0 6"),
      conv("short.16", 16, 112, 112, 96, 1, 1, "v1 = clip v0 0 6"),
      conv("short.32", 32, 56, 56, 64, 1, 1),
      depthwise("depthwise.3x3", 144, 56, 3, 1),
      depthwise("depthwise.3x3.512", 512, 14, 3, 1),
      depthwise("depthwise.3x3/2", 96, 112, 3, 2),
      depthwise("depthwise.5x5", 672, 14, 5, 1),
      depthwise("depthwise.5x5/2", 144, 56, 5, 2),
      depthwise("depthwise.7x7", 384, 14, 7, 1),
      grouped("resnext.by4", 128, 56, 3, 1, 32),
      grouped("resnext.by8", 256, 28, 3, 1, 32),
      grouped("resnext.by8/2", 256, 56, 3, 2, 32),
      grouped("resnext.by16", 512, 14, 3, 1, 32),
      grouped("groups.by64", 128, 28, 3, 1, 2),
      conv("yolox.pointwise", 64, 52, 52, 64, 1, 1, "v1 = silu v0 1"),
      conv("agllnet.3x3", 16, 256, 256, 16, 3, 1),
      conv("mlsd.3x3", 64, 160, 160, 64, 3, 1),
      conv("espcn.5x5", 1, 224, 224, 64, 5, 1),
  };
}

Layer transposed(Layer layer) {
  layer.spec.transposed = true;
  const ConvShape& s = layer.spec.shape;
  layer.spec.pad_bottom = s.pad_top;
  return layer;
}

std::vector<Layer> deconvolutions() {
  std::vector<Layer> layers = {
      transposed(conv("agllnet.deconv7x7", 16, 244, 244, 16, 7, 1)),
      transposed(conv("agllnet.deconv5x5", 32, 252, 252, 8, 5, 1)),
      transposed(conv("ppocr.deconv2x2/2", 24, 112, 80, 24, 2, 2)),
      transposed(conv("ppocr.last2x2/2", 24, 224, 160, 1, 2, 2, "v1 = sigmoid v0")),
      transposed(conv("deconv4x4/2", 64, 40, 40, 64, 4, 2)),
  };
  for (Layer& layer : layers)
    if (layer.spec.shape.kh == 2)
      layer.spec.shape.pad_top = layer.spec.shape.pad_left = 0,
      layer.spec.pad_bottom = layer.spec.pad_right = 0;
  return layers;
}

std::vector<Product> products() {
  return {
      {"bert_base.qkv", 1, 128, 768, 768, true, false},
      {"bert_base.ffn1", 1, 128, 3072, 768, true, false, "v1 = gelu v0"},
      {"bert_base.ffn2", 1, 128, 768, 3072, true, false},
      {"bert_small.qkv", 1, 128, 512, 512, true, false},
      {"vit_base.qkv", 1, 197, 768, 768, true, false},
      {"bert_512.qkv", 1, 512, 768, 768, true, false},
      {"deep.3072", 1, 96, 768, 3072, true, false},
      {"deep.4096", 1, 64, 1024, 4096, true, false},
      {"llama.up", 1, 40, 2816, 1024, true, false},
      {"column", 64, 2048, 1, 512, false, false},
      {"row", 1, 1, 4096, 1024, false, false},
      {"rows.1", 1, 1, 768, 768, true, false},
      {"rows.1.large", 1, 1, 4096, 1024, true, false},
      {"rows.2", 1, 2, 2048, 1024, true, false},
      {"rows.2.deep", 1, 2, 512, 3136, true, false},
      {"rows.2.small", 1, 2, 768, 256, true, false},
      {"rows.3", 1, 3, 2048, 1024, true, false},
      {"rows.4", 1, 4, 2048, 1024, true, false},
      {"bert_base.scores", 12, 128, 128, 64, false, true},
      {"bert_base.context", 12, 128, 64, 128, false, false},
      {"bert_6x256.qkv", 1, 40, 256, 256, true, false},
      {"bert_6x256.ffn1", 1, 40, 1024, 256, true, false, "v1 = gelu v0"},
      {"bert_6x256.scores", 4, 40, 40, 64, false, true},
      {"resnet.fc", 1, 1, 1000, 2048, true, false},
      {"ppocr.ctc", 1, 40, 6625, 120, true, false},
      {"magika.dense", 1, 2048, 64, 257, true, false},
      {"dtln.lstm", 1, 1, 512, 128, true, false},
      {"silero.lstm", 1, 1, 512, 128, true, true},
      {"tinyllama.ffn", 1, 1, 172, 64, true, false},
      {"tinyllama.scores", 8, 1, 38, 8, false, true},
      {"tinyllama.context", 8, 1, 8, 38, false, false},
      {"square.512", 1, 512, 512, 512, false, false},
  };
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Best seconds of one run, from about `seconds` of runs.
template <class Case>
double best_time(Case& layer, double seconds) {
  layer.run();
  double best = 1e9;
  for (const Clock::time_point begin = Clock::now(); seconds_since(begin) < seconds;) {
    const Clock::time_point start = Clock::now();
    layer.run();
    best = std::min(best, seconds_since(start));
  }
  return best;
}

// Times every tactic of `kind` that takes the case.
template <class Case>
void time_case(const char* name, ir::LayerKind kind, double gmac, Case& layer,
               const Options& options, ThreadPool& pool, bool of_bytes = false) {
  for (const Tactic* tactic : tactics_for(kind)) {
    const bool of_pairs = tactic->precision == DataType::kBFloat16;
    const auto measure_peak = [of_bytes, of_pairs](Isa isa) {
      return of_bytes   ? measure_byte_peak(isa, 0.002)
             : of_pairs ? measure_bf16_peak(isa, 0.002)
                        : measure_fma_peak(isa, 0.002);
    };
    if (options.isa != "all" && isa_name(tactic->isa) != options.isa) continue;
    if (options.isa == "all" && tactic->isa == Isa::kScalar) continue;
    if (std::string_view(tactic->name).find(options.tactics) == std::string_view::npos) continue;
    const Problem problem = layer.problem(*tactic, options.threads);
    const std::string refusal = tactic->refusal(problem);
    if (!refusal.empty()) {
      if (options.verbose)
        std::printf("%-20s %-7s %-34s refused: %s\n", name, isa_name(tactic->isa).data(),
                    tactic->name, refusal.c_str());
      continue;
    }
    layer.prepare(*tactic, &pool);
    const double before = measure_peak(tactic->isa);
    const double best = best_time(layer, options.seconds);
    const double peak = std::max(before, measure_peak(tactic->isa)) * options.threads;
    std::printf("%-20s %-7s %-34s %9.2f us  (model %9.2f)  %7.1f GMAC/s  %5.1f %%\n", name,
                isa_name(tactic->isa).data(), tactic->name, best * 1e6, tactic->cost_us(problem),
                gmac / best, 100 * gmac / best / peak);
    std::fflush(stdout);
  }
}

constexpr const char* kByteScale = "v2 = mul v0 v1; v3 = const 128; v4 = add v2 v3";
constexpr const char* kByteGelu =
    "v2 = mul v0 v1; v3 = gelu v2; v4 = const 20; v5 = mul v3 v4; v6 = const 128; v7 = add v5 v6";

// The layer's epilogue between a scale per channel and codes.
std::string byte_epilogue(const Layer& layer) {
  if (!layer.spec.operands.empty())
    return "v3 = mul v0 v1; v4 = const 0.5; v5 = mul v2 v4; v6 = add v3 v5; v7 = relu v6";
  const std::string_view epilogue = layer.spec.epilogue;
  if (epilogue.find("silu") != epilogue.npos)
    return "v2 = mul v0 v1; v3 = silu v2 1; v4 = const 20; v5 = mul v3 v4; v6 = const 6; v7 = add "
           "v5 v6";
  return epilogue.empty() ? kByteScale : "v2 = mul v0 v1; v3 = relu v2";
}

void time_layers(const std::vector<Layer>& layers, const Options& options, ThreadPool& pool) {
  for (const Layer& layer : layers) {
    if (std::string_view(layer.name).find(options.layers) == std::string_view::npos) continue;
    ConvCase conv(layer.spec);
    // A transposed convolution multiplies per input pixel.
    const ConvShape& s = conv.shape();
    const double pixels = static_cast<double>(s.ih * s.iw) / static_cast<double>(s.oh * s.ow);
    const double gmac = s.macs() / 1e9 * (layer.spec.transposed ? pixels : 1);
    const ir::LayerKind kind =
        layer.spec.transposed ? ir::LayerKind::kDeconvolution : ir::LayerKind::kConvolution;
    if (options.type != "byte") time_case(layer.name, kind, gmac, conv, options, pool);
    if (options.type == "float") continue;
    LayerCase bytes =
        byte_conv_case(conv.shape(), layer.spec.pad_bottom, layer.spec.pad_right,
                       layer.spec.transposed, !layer.spec.operands.empty(), byte_epilogue(layer),
                       static_cast<uint8_t>(options.largest_code));
    time_case(layer.name, kind, gmac, bytes, options, pool, true);
  }
}

void time_products(const Options& options, ThreadPool& pool) {
  for (const Product& p : products()) {
    if (std::string_view(p.name).find(options.layers) == std::string_view::npos) continue;
    LayerCase layer = matmul_case(p.batch, p.m, p.n, p.k, p.constant, p.transpose_b, p.epilogue);
    const double gmac = static_cast<double>(p.batch * p.m) * static_cast<double>(p.n * p.k) / 1e9;
    const ir::LayerKind kind = ir::LayerKind::kMatrixMultiply;
    if (options.type != "byte") time_case(p.name, kind, gmac, layer, options, pool);
    if (options.type == "float") continue;
    LayerCase bytes = byte_matmul_case(p.batch, p.m, p.n, p.k, p.constant, p.transpose_b,
                                       *p.epilogue ? kByteGelu : kByteScale,
                                       static_cast<uint8_t>(options.largest_code));
    time_case(p.name, kind, gmac, bytes, options, pool, true);
  }
}

// Attention as products make and read it, [batch, steps, heads * depth], or with keys and values as
// caches keep them, [batch, heads, steps, depth].
struct AttentionLayer {
  const char* name;
  int64_t batch, heads, kv_heads, queries, keys, depth;
  bool causal = false, mask = false, caches = false;
};

constexpr AttentionLayer kAttention[] = {
    {"attention.swin", 64, 3, 3, 49, 49, 32, false, true},
    {"attention.columns.8", 2, 256, 256, 8, 8, 8, false, false, true},
    {"attention.frames.16", 1024, 8, 8, 16, 16, 40},
    {"attention.bert.128", 1, 12, 12, 128, 128, 64, false, true},
    {"attention.vit.197", 1, 12, 12, 197, 197, 64},
    {"attention.whisper.1500", 1, 6, 6, 1500, 1500, 64},
    {"attention.4k.64", 1, 4, 4, 4096, 4096, 64},
    {"attention.4k.128", 1, 2, 2, 4096, 4096, 128},
    {"attention.4k.causal", 1, 4, 2, 4096, 4096, 64, true},
    {"attention.decode.1k", 1, 16, 4, 1, 1024, 64},
    {"attention.decode.8k", 1, 32, 8, 1, 8192, 128},
    {"attention.cache.1k", 1, 16, 4, 1, 1024, 64, false, false, true},
    {"attention.cache.8k", 1, 32, 8, 1, 8192, 128, false, false, true},
};

void time_attention(const Options& options, ThreadPool& pool) {
  if (options.type == "byte") return;
  for (const AttentionLayer& a : kAttention) {
    if (std::string_view(a.name).find(options.layers) == std::string_view::npos) continue;
    ir::AttentionAttrs attrs;
    attrs.scale = 0.125f;
    attrs.heads = a.heads, attrs.kv_heads = a.kv_heads;
    attrs.q_steps_first = attrs.y_steps_first = true;
    attrs.k_steps_first = attrs.v_steps_first = !a.caches;
    if (a.causal) attrs.right_window = 0;
    const CaseTensor q{{a.batch, a.queries, a.heads * a.depth}};
    const CaseTensor k = a.caches ? CaseTensor{{a.batch, a.kv_heads, a.keys, a.depth}}
                                  : CaseTensor{{a.batch, a.keys, a.kv_heads * a.depth}};
    std::vector<CaseTensor> inputs = {q, k, k};
    if (a.mask) {
      attrs.epilogue = ir::parse_program(2, "v2 = add v0 v1").value();
      inputs.push_back({.extents = {a.batch}, .present = false, .type = DataType::kInt64});
      inputs.push_back({{1, a.batch > 1 ? a.heads : 1, a.queries, a.keys}});
    }
    LayerCase layer(ir::LayerKind::kAttention, attrs, inputs, q);
    const double pairs = static_cast<double>(a.batch * a.queries * a.keys) * (a.causal ? 0.5 : 1);
    time_case(a.name, ir::LayerKind::kAttention,
              pairs * static_cast<double>(2 * a.heads * a.depth) / 1e9, layer, options, pool);
  }
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("GMAC/s of every kernel tactic");
  app.add_option("--layers", options.layers, "only layers whose name contains this");
  app.add_option("--tactics", options.tactics, "only tactics whose name contains this");
  app.add_option("--isa", options.isa, "scalar, avx2, avx512 or all (but scalar)");
  app.add_option("--type", options.type, "float, byte or all");
  app.add_option("--largest-code", options.largest_code,
                 "of the uint8 inputs: 127 as after a ReLU in a symmetric network")
      ->check(CLI::Range(1, 255));
  app.add_option("--threads", options.threads, "threads");
  app.add_option("--seconds", options.seconds, "measuring time per tactic");
  app.add_flag("--verbose", options.verbose, "say why tactics are refused");
  CLI11_PARSE(app, argc, argv);
  ThreadPool pool(options.threads);
  time_layers(layers(), options, pool);
  time_layers(deconvolutions(), options, pool);
  time_products(options, pool);
  time_attention(options, pool);
  return 0;
}

}  // namespace
}  // namespace camshaft::kernels

int main(int argc, char** argv) {
  return camshaft::kernels::run(argc, argv);
}
