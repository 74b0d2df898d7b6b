// SPDX-License-Identifier: Apache-2.0
// What is inside an engine and why: layers with types, shapes, formats, tactics, work and source
// nodes; per-layer times; the build record. JSON in the schema of TensorRT 8.2-10.x with more keys.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "camshaft/context.h"
#include "camshaft/engine.h"

namespace camshaft {

struct LayerTensor {
  std::string name;
  DataType type = DataType::kUndefined;
  Dims dims;           // -1: dynamic, and no context was given
  std::string format;  // TensorRT's words: "Row major linear FP32"
  // Of quantized tensors: real value = scale * (code - zero_point); empty: not known.
  std::vector<float> scale = {};
  std::vector<int32_t> zero_point = {};
};

// A tactic that was looked at for a layer while building.
struct LayerCandidate {
  std::string tactic;
  std::string formats;  // "channel_last"
  double time_us = 0;   // 0: not timed
  std::string
      refusal;  // why it could not be used (timed: what it was compared with); empty: it could
  bool chosen = false;
  std::string why_not;  // `refusal`, or what it lost by: "1.30 x the chosen one's time"
};

// Zeros among the constant weights of a layer, and what became of them.
struct LayerSparsity {
  int64_t weights = 0;  // 0: the layer has no constant weights
  int64_t nonzeros = 0;
  int64_t groups = 0;        // of four neighbouring input channels
  int64_t full_groups = 0;   // of those, with more than two weights that are not zero
  std::string pattern;       // "2:4"; "unstructured": other zeros, half of the weights or more; ""
  bool eligible = false;     // a sparse tactic takes it
  bool picked = false;       // and runs it
  double dense_time_us = 0;  // the fastest dense and sparse tactics while building; 0: not timed
  double sparse_time_us = 0;
  std::string reason;  // why no sparse tactic runs it
};

// What a layer is, wherever it runs.
struct LayerSummary {
  std::string name;       // "conv1 + relu1"
  std::string type;       // "Convolution"
  std::string tactic;     // "" : a plain reference kernel, its `inner` layers, or nothing (NoOp)
  std::string isa;        // "avx2"
  bool is_no_op = false;  // a view: no code runs
  bool is_late = false;   // only running tells its extents: without a tactic it looks for one then
  std::vector<LayerTensor> inputs, outputs;  // activations; constants are counted in weight_bytes
  std::vector<std::string> source_nodes;     // the ONNX nodes it came from

  bool has_bodies() const { return type == "If" || type == "Loop" || type == "Scan"; }
};

// A layer inside an If, Loop or Scan. It runs as often as its body does; extents of -1 are known
// only then.
struct InnerLayer : LayerSummary {
  std::string body;  // the ONNX graph it is of: "then_branch"
  int depth = 1;     // 2: of a body inside a body
};

struct LayerInfo : LayerSummary {
  int index = 0;
  std::string arithmetic;  // of its packed weights: "int8 chain4 61 %, s16 39 %"; mostly ""
  // The 16-bit type its products are computed in, else the type it writes.
  DataType precision = DataType::kUndefined;
  uint64_t tactic_value = 0;
  double macs =
      0;  // multiply-adds; 0 for layers that do not multiply-accumulate, -1: unknown (dynamic)
  // What `macs` counts where the layer multiplies less: "direct arithmetic" (Winograd), "dense
  // arithmetic" (sparse tactics), "all keys" (attention to as many as lengths say when it runs);
  // rates may be above the peak then. Else empty.
  std::string counted_arithmetic;
  double io_bytes = 0;  // activations read and written plus weights; -1: unknown
  double weight_bytes = 0;
  // Of the tactic while building, at the opt shapes of the first profile; 0: not timed, or (with a
  // context) the layer's extents are others now.
  double build_time_us = 0;
  // With a context: how many images of a large batch it runs on at a time; 0: on all.
  int64_t images_per_pass = 0;
  double peak_factor =
      1;  // the peak of its arithmetic beside the FMA peak: 8 and 16 bits are faster
  std::vector<LayerCandidate> candidates;  // the chosen one, by time, untimed, refused
  // Of an If, Loop or Scan: those of its bodies, each followed by those of its own bodies.
  std::vector<InnerLayer> inner;
  LayerSparsity sparsity = {};
  // Of a layer in a region: the region's number, and what TensorRT would call the layer there:
  // "__myl_GathMulAdd_myl0_3", "/layers_0/dense/MatMul_myl0_4"; "kgen", "gemm" (a product),
  // "fusion" (a product with an activation) or "NoOp".
  int region = -1;
  std::string region_name, region_type;
};

// For a table's column: the tactic, "its body" (of an If, Loop or Scan), "when run" (is_late),
// "reference", or nothing (NoOp).
CAMSHAFT_API std::string tactic_text(const LayerSummary& layer);
// Further to the right the deeper it lies: "  MatMul_7 ×40", that many `calls`; 0: not told.
CAMSHAFT_API std::string indented_name(const InnerLayer& layer, double calls = 0);

// Layers that make up one part of the network, a run of transformer blocks: one entry where only
// names are asked for. They run like all others.
struct RegionInfo {
  // A tensor that crosses the border, and the layer on its other side.
  struct Border {
    LayerTensor tensor;
    int layer = -1;          // -1: it is the network's input or output
    std::string layer_name;  // "" then
    std::string reason;      // why that layer is no part of the region
  };
  int index = 0;
  std::string name;          // "{ForeignNode[first ONNX node...last ONNX node]}"
  std::vector<int> layers;   // in execution order
  int running = 0;           // of these: the others are views
  double build_time_us = 0;  // of the layers together
  std::string reason;        // why they are one
  std::vector<Border> before, after;
};

// What a pass did (or would not do) to a layer.
struct RewriteInfo {
  bool declined = false;
  std::string action;  // "fuse", "remove", "swap", "merge", "split", "convert", "edit", "decline"
  std::string pass;
  std::string layer;                // the one looked at, as it was called then
  std::vector<std::string> layers;  // and what else it took part in
  std::string text;                 // "Fusing conv1 with relu1", or the reason it declined
  // Of what was declined, to count and sort by: "constant", "extent", "shape", "type", "attribute",
  // "grid", "reader", "value", "limit", "cost", "other pass", "unsupported" (docs/passes.md).
  std::string reason;
};

// Whose words layer information is in: ours, which say what a CPU has, or trtexec's of 8.x or 10.x
// with the layer types ("CaskConvolution") and tensor locations ("Device") its readers look for.
enum class Wording : uint8_t { kCamshaft, kTrtexec8, kTrtexec10 };

class CAMSHAFT_API Inspector {
 public:
  explicit Inspector(const Engine& engine);
  // Dynamic extents take the values the context has now.
  Inspector(const Engine& engine, const Context& context);
  Inspector(Inspector&&) noexcept;
  ~Inspector();

  // In execution order; LayerTime::layer indexes this.
  const std::vector<LayerInfo>& layers() const;
  const std::vector<RewriteInfo>& rewrites() const;
  // LayerInfo::region indexes this. Empty for networks without attention.
  const std::vector<RegionInfo>& regions() const;
  // Those that went into one layer: all names a record mentions are among the layer's.
  std::vector<RewriteInfo> rewrites_of(int index) const;
  // Layers after each stage of the optimizer: ("After vertical fusions", 153).
  const std::vector<std::pair<std::string, int>>& layer_counts() const;

  // Multiply-adds per second of one thread of the engine's machine, in 1e9: as measured while
  // building, else measured at the first call if this machine is of that kind; 0: unknown. What
  // "percent of peak" is relative to.
  double peak_gmacs() const;

  // {"Layers": […], "Bindings": […]}. Layers are strings for kLayerNamesOnly (a region is one),
  // indices for kNone, objects for kDetailed; in our own words "Regions" follow, where there are
  // some.
  std::string to_json(Verbosity verbosity, Wording wording = Wording::kCamshaft) const;
  // TensorRT's one-line text form: a line per layer, then the bindings.
  std::string to_text(Verbosity verbosity, Wording wording = Wording::kCamshaft) const;
  // One layer: index out of range gives "".
  std::string layer_json(int index) const;
  std::string layer_text(int index) const;
  // Why a layer is as it is: {"Name", "Region", "RegionLayer" (of layers in one), "Rewrites":
  // [{"Pass", "Layer", "Text", "Declined"}], "Candidates": [{"Tactic", "Formats", "TimeUs",
  // "Chosen", "Refusal"}]}.
  std::string explain_json(int index) const;
  // "Layer(Convolution): conv1, Tactic: 0x…, x (Float[1,3,8,8]) -> y (Float[1,8,8,8])": the verbose
  // log's form; of trtexec 8: x[Float(1,3,8,8)].
  std::string layer_line(int index, Wording wording = Wording::kCamshaft) const;
  // The same of a region: "Layer(Myelin): {ForeignNode[a...b]}, Tactic: 0x…, x (…) -> y (…)".
  std::string region_line(int region, Wording wording = Wording::kCamshaft) const;

  // For the library itself.
  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

// Collects per-layer times of many runs.
class CAMSHAFT_API LayerProfile {
 public:
  // Names and work come from the inspector's layers.
  explicit LayerProfile(const Inspector& inspector);
  LayerProfile(LayerProfile&&) noexcept;
  ~LayerProfile();

  // Times of one layer in one run are added up; those of inner layers only to these.
  void add(const LayerTime& time);
  void end_run();  // after each run()
  void clear();

  struct Row {
    int layer;       // index
    int inner = -1;  // of inner_rows(): index into LayerInfo::inner
    std::string name;
    double calls = 1;  // of a run
    double total_ms = 0;
    double average_ms = 0;
    double median_ms = 0;
    double percentage = 0;    // of the total over all layers
    double gmacs = 0;         // 1e9 multiply-adds/s at the median; 0: none or unknown
    double gbytes = 0;        // 1e9 bytes/s at the median
    double peak_percent = 0;  // of what all threads can do of its arithmetic; 0: none or unknown
  };
  int runs() const;
  double total_ms() const;
  // Layers that ran, in execution order. `peak_gmacs`: FMA of all threads together; 0: no percent
  // of peak.
  std::vector<Row> rows(double peak_gmacs = 0) const;
  // Those inside a layer, as far as times of them were added: of all their calls in a run.
  std::vector<Row> inner_rows(int layer) const;

  // trtexec's exportProfile: [{"count": N}, {name, timeMs, averageMs, medianMs, percentage}…]; of
  // an If, Loop or Scan with `layers`, the same of those inside and how many `calls` a run makes.
  std::string to_json() const;
  std::string to_text() const;  // trtexec's 10.x table; layers inside others are indented

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace camshaft
