// SPDX-License-Identifier: Apache-2.0
// Random networks through random tactics, formats and views, against the interpreter.
#include "tuner/random_graph.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "ir/infer.h"
#include "kernels/interpreter.h"
#include "passes/pipeline.h"
#include "tuner/layer_check.h"
#include "tuner/test_util.h"

namespace camshaft::tuner {
namespace {

using ir::Dim;
using ir::LayerKind;
using ir::Tensor;

class Generator {
 public:
  Generator(uint32_t seed, bool dynamic_batch)
      : random_(seed), graph_(std::make_unique<ir::Graph>("random")) {
    const Dim batch = dynamic_batch ? graph_->symbols().input("batch") : Dim(1 + below(2));
    Tensor* x =
        graph_->add_tensor("x", ir::DataType::kFloat,
                           {batch, Dim(2 + below(20)), Dim(5 + below(12)), Dim(5 + below(12))});
    graph_->add_input(x);
    maps_.push_back(x);
  }

  std::unique_ptr<ir::Graph> make(int layers) {
    for (int k = 0; k < layers; ++k) add_layer();
    graph_->add_output(maps_.back());
    for (int k = below(3); k > 0; --k) {
      Tensor* tensor = maps_[below(static_cast<int>(maps_.size()))];
      if (tensor->producer && !graph_->is_output(tensor)) graph_->add_output(tensor);
    }
    return std::move(graph_);
  }

 private:
  int below(int n) { return static_cast<int>(random_() % n); }
  int64_t extent(const Tensor* t, int d) const { return t->shape[d].extent(); }
  Tensor* any() { return maps_[maps_.size() - 1 - std::min<size_t>(below(3), maps_.size() - 1)]; }

  Tensor* constant(const ir::Extents& extents, float scale) {
    std::vector<float> values(ir::element_count(extents));
    for (float& v : values) v = scale * (static_cast<float>(below(2001)) / 1000.0f - 1);
    std::vector<std::byte> bytes(values.size() * 4);
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return graph_->add_constant(fmt::format("c{}", count_++), ir::DataType::kFloat, extents,
                                ir::make_constant(std::move(bytes)));
  }

  Tensor* layer(LayerKind kind, ir::Attrs attrs, std::vector<Tensor*> inputs) {
    const std::string name = fmt::format("{}{}", ir::kind_name(kind), count_++);
    Tensor* y = graph_->add_tensor(name + "_out", ir::DataType::kFloat, {});
    ir::Layer* made = graph_->add_layer(kind, name, std::move(attrs), std::move(inputs), {y});
    const Status status = ir::infer_layer(*graph_, *made);
    EXPECT_TRUE(status.ok()) << name << ": " << status.message();
    return y;
  }

  void keep(Tensor* y) {
    if (y->shape.size() == 4) maps_.push_back(y);
  }

  void convolution() {
    Tensor* x = any();
    const int64_t ic = extent(x, 1);
    ir::ConvolutionAttrs a;
    const int64_t size = std::min<int64_t>(1 + 2 * below(3), std::min(extent(x, 2), extent(x, 3)));
    const int64_t stride = 1 + below(2), padding = below(2) ? size / 2 : 0;
    a.kernel = {size, size};
    a.stride = {stride, stride};
    a.dilation = {1, 1};
    a.pre_padding = a.post_padding = {padding, padding};
    const int form = below(4);
    a.groups = form == 0 ? ic : form == 1 && ic % 2 == 0 ? 2 : 1;
    const int64_t oc = form == 0 ? ic : a.groups * (1 + below(12));
    std::vector<Tensor*> inputs = {x, constant({oc, ic / a.groups, size, size}, 0.3f),
                                   below(2) ? constant({oc}, 0.5f) : nullptr};
    if (below(2)) {
      a.epilogue.num_inputs = 1;
      ir::append(a.epilogue, below(2) ? ir::PointOp::kRelu : ir::PointOp::kHardSwish, 0);
    }
    Tensor* y = layer(LayerKind::kConvolution, a, inputs);
    keep(y);
    // A second one that adds the first: the residual form.
    if (below(3) == 0 && a.groups == 1) {
      ir::ConvolutionAttrs b;
      b.kernel = {1, 1};
      b.stride = b.dilation = {1, 1};
      b.pre_padding = b.post_padding = {0, 0};
      b.epilogue.num_inputs = 2;
      const int sum = ir::append(b.epilogue, ir::PointOp::kAdd, 0, 1);
      ir::append(b.epilogue, ir::PointOp::kRelu, sum);
      keep(layer(LayerKind::kConvolution, b, {y, constant({oc, oc, 1, 1}, 0.3f), nullptr, y}));
    }
  }

  void pooling() {
    ir::PoolingAttrs a;
    Tensor* x = any();
    a.type = below(2) ? ir::PoolingType::kMax : ir::PoolingType::kAverage;
    const int64_t size = std::min<int64_t>(2 + below(2), std::min(extent(x, 2), extent(x, 3)));
    a.kernel = {size, size};
    a.stride = {1 + below(2), 1 + below(2)};
    a.dilation = {1, 1};
    a.pre_padding = a.post_padding = {0, 0};
    keep(layer(LayerKind::kPooling, a, {x}));
  }

  void elementwise() {
    Tensor* x = any();
    ir::PointOpAttrs a;
    a.op = below(2) ? ir::PointOp::kAdd : ir::PointOp::kMul;
    std::vector<Tensor*> partners;
    for (Tensor* t : maps_)
      if (t->shape == x->shape) partners.push_back(t);
    Tensor* y = below(2) ? partners[below(static_cast<int>(partners.size()))]
                         : constant({extent(x, 1), 1, 1}, 1.0f);
    keep(layer(LayerKind::kElementWise, a, {x, y}));
  }

  void activation() {
    ir::PointOpAttrs a;
    a.op = below(2) ? ir::PointOp::kRelu : ir::PointOp::kSigmoid;
    keep(layer(LayerKind::kActivation, a, {any()}));
  }

  void concatenation() {
    Tensor* x = any();
    const int axis = 1 + below(3);
    std::vector<Tensor*> parts;
    for (Tensor* t : maps_) {
      bool fits = parts.size() < 3;
      for (int d = 0; d < 4; ++d) fits &= d == axis || t->shape[d] == x->shape[d];
      if (fits && below(3)) parts.push_back(t);
    }
    parts.push_back(x);
    if (extent(x, 1) > 100) return;
    keep(layer(LayerKind::kConcatenation, ir::AxisAttrs{axis}, parts));
  }

  void slice() {
    Tensor* x = any();
    const int axis = 1 + below(3);
    const int64_t whole = extent(x, axis);
    if (whole < 2) return;
    ir::SliceAttrs a;
    a.size = x->shape;
    a.start = ir::Shape(4, Dim(0));
    a.step = {1, 1, 1, 1};
    const int64_t first = below(static_cast<int>(whole));
    a.start[axis] = Dim(first);
    a.size[axis] = Dim(1 + below(static_cast<int>(whole - first)));
    if (below(4) == 0) {
      a.step[axis] = 2;
      a.size[axis] = Dim((whole - first + 1) / 2);
    }
    keep(layer(LayerKind::kSlice, a, {x}));
  }

  void shuffle() {
    Tensor* x = any();
    ir::ShuffleAttrs a;
    switch (below(4)) {
      case 0:
        a.first_transpose = {0, 2, 3, 1};
        break;
      case 1:
        a.first_transpose = {0, 3, 1, 2};
        break;
      case 2:
        a.has_reshape = true;
        a.reshape = {x->shape[0], Dim(extent(x, 2)), Dim(extent(x, 1)), Dim(extent(x, 3))};
        break;
      default:  // there and back through three dimensions
        a.has_reshape = true;
        a.reshape = {x->shape[0], Dim(extent(x, 1)), Dim(extent(x, 2) * extent(x, 3))};
        a.second_transpose = {0, 2, 1};
        Tensor* flat = layer(LayerKind::kShuffle, a, {x});
        ir::ShuffleAttrs back;
        back.first_transpose = {0, 2, 1};
        back.has_reshape = true;
        back.reshape = x->shape;
        keep(layer(LayerKind::kShuffle, back, {flat}));
        return;
    }
    keep(layer(LayerKind::kShuffle, a, {x}));
  }

  void reduction() {
    ir::ReduceAttrs a;
    a.op = ir::ReduceOp::kMean;
    a.axes = {2, 3};
    Tensor* x = any();
    Tensor* mean = layer(LayerKind::kReduce, a, {x});
    ir::PointOpAttrs product;
    product.op = ir::PointOp::kMul;
    keep(layer(LayerKind::kElementWise, product, {x, mean}));  // the shape of squeeze and excite
  }

  void softmax() {
    const int64_t axis = 1 + below(3);
    keep(layer(LayerKind::kSoftMax, ir::SoftMaxAttrs{axis, axis, false, false}, {any()}));
  }

  void add_layer() {
    switch (below(12)) {
      case 0:
      case 1:
      case 2:
        return convolution();
      case 3:
        return pooling();
      case 4:
        return elementwise();
      case 5:
        return activation();
      case 6:
      case 7:
        return concatenation();
      case 8:
        return slice();
      case 9:
        return shuffle();
      case 10:
        return reduction();
      default:
        return softmax();
    }
  }

  std::mt19937 random_;
  std::unique_ptr<ir::Graph> graph_;
  std::vector<Tensor*> maps_;  // rank 4, what later layers take
  int count_ = 0;
};

TestTensor input_for(const ir::Graph& graph, int64_t batch, uint32_t seed) {
  ir::Extents extents;
  for (const Dim dim : graph.inputs()[0]->shape)
    extents.push_back(dim.is_known() ? dim.extent() : batch);
  return random_tensor(extents, seed);
}

// Builds with random choices, runs at the batch sizes, compares with the interpreter. 16-bit types:
// every step may round by 2^-9 of its values, 14 steps one after another by some hundredths.
void check(uint32_t seed, bool dynamic, const std::vector<ir::DataType>& reduced = {}) {
  const float tolerance = reduced.empty() ? 1e-4f : 0.06f;
  const std::unique_ptr<ir::Graph> graph = random_graph(seed, 14, dynamic);
  ASSERT_STATUS_OK(ir::verify(*graph));
  BuildOptions options;
  options.random_choices = seed + 1;
  options.threads = 1 + seed % 2;
  options.reduced_types = reduced;
  if (dynamic) {
    engine::ShapeRange range{"x", {}, {}, {}};
    range.min = input_for(*graph, 1, 0).extents;
    range.opt = input_for(*graph, 2, 0).extents;
    range.max = input_for(*graph, 3, 0).extents;
    options.profiles = {{range}};
  }
  const auto engine = engine_of(random_graph(seed, 14, dynamic), options);
  ASSERT_TRUE(engine);
  auto context = runtime::Context::create(engine, {.threads = options.threads});
  ASSERT_STATUS_OK(context.status());
  for (const int64_t batch :
       dynamic ? std::vector<int64_t>{3, 1, 2, 3} : std::vector<int64_t>{1, 1}) {
    const TestTensor x = input_for(*graph, batch, seed);
    auto value = kernels::make_value(ir::DataType::kFloat, x.extents, x.bytes);
    ASSERT_STATUS_OK(value.status());
    const std::vector<kernels::Value> inputs = {*value};
    const auto expected = kernels::evaluate(*graph, inputs);
    ASSERT_STATUS_OK(expected.status());
    std::vector<TestTensor> outputs;
    ASSERT_STATUS_OK(run(**context, {x}, outputs));
    ASSERT_EQ(outputs.size(), expected.value().size());
    for (size_t k = 0; k < outputs.size(); ++k) {
      ASSERT_EQ(outputs[k].extents, expected.value()[k].extents);
      const auto want = expected.value()[k].as<float>();
      float largest = 0;
      for (const float v : want) largest = std::max(largest, std::fabs(v));
      float error = 0;
      for (size_t i = 0; i < want.size(); ++i)
        error = std::max(error, std::fabs(outputs[k].floats()[i] - want[i]));
      if (error > tolerance * largest + 1e-5f) {
        (*context)->set_input(0, x.bytes.data(), x.bytes.size()).ok();
        const auto optimized = random_graph(seed, 14, dynamic);
        passes::PassRecord record;
        ASSERT_STATUS_OK(passes::optimize(*optimized, record));
        const auto checks = check_layers(*optimized, inputs, **context);
        ASSERT_STATUS_OK(checks.status());
        std::vector<std::string> differing;
        for (const LayerCheck& layer : checks.value())
          if (!layer.is_within(tolerance)) differing.push_back(text_of(layer));
        FAIL() << ir::to_text(*random_graph(seed, 14, dynamic), true) << "seed " << seed
               << " batch " << batch << " output " << k << ": error " << error << " of " << largest
               << "\n"
               << fmt::format("{}", fmt::join(differing, "\n"));
      }
    }
  }
}

TEST(RandomGraphs, StaticShapes) {
  for (uint32_t seed = 1; seed <= 60 && !HasFatalFailure(); ++seed) check(seed, false);
}

TEST(RandomGraphs, DynamicBatch) {
  for (uint32_t seed = 1001; seed <= 1040 && !HasFatalFailure(); ++seed) check(seed, true);
}

TEST(RandomGraphs, SixteenBitTypes) {
  constexpr ir::DataType kBf16 = ir::DataType::kBFloat16, kHalf = ir::DataType::kHalf;
  for (uint32_t seed = 2001; seed <= 2030 && !HasFatalFailure(); ++seed)
    check(seed, false, {kBf16});
  for (uint32_t seed = 2031; seed <= 2050 && !HasFatalFailure(); ++seed)
    check(seed, false, {kBf16, kHalf});
  for (uint32_t seed = 2051; seed <= 2060 && !HasFatalFailure(); ++seed) check(seed, true, {kBf16});
}

}  // namespace

std::unique_ptr<ir::Graph> random_graph(uint32_t seed, int layers, bool dynamic_batch) {
  return Generator(seed, dynamic_batch).make(layers);
}

}  // namespace camshaft::tuner
