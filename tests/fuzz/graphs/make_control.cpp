// SPDX-License-Identifier: Apache-2.0
// If, Loop, Scan, with bodies of a few layers that read what is outside.
#include <algorithm>

#include "fuzz/graphs/graph_maker.h"

namespace camshaft::fuzz {
namespace {

// A body's own graph and the maker that fills it.
struct Body {
  Body(GraphMaker& outer, const std::string& name)
      : graph(std::make_unique<ir::Graph>(name, outer.graph().shared_symbols())),
        maker(*graph, outer.random(), outer.bindings()) {}

  Tensor* input(const std::string& name, DataType type, const Shape& shape,
                std::vector<Value> values) {
    Tensor* tensor = maker.input(name, type, shape);
    maker.adopt(tensor, std::move(values), false);
    return tensor;
  }
  Tensor* like(GraphMaker& outer, const Tensor* tensor) {
    std::vector<Value> values;
    for (size_t run = 0; run < outer.runs(); ++run) values.push_back(outer.value(tensor, run));
    Tensor* made = input(tensor->name, tensor->type, tensor->shape, std::move(values));
    made->has_rank = tensor->has_rank;
    return made;
  }

  std::unique_ptr<ir::Graph> graph;
  GraphMaker maker;
};

// A few layers, then something of x's shape and type made by a layer.
Tensor* work(GraphMaker& m, Tensor* x, Tensor* other) {
  for (int64_t k = m.between(0, 3); k > 0; --k) {
    const MakerTable rows = m.chance(60)   ? pointwise_makers()
                            : m.chance(60) ? movement_makers()
                                           : product_makers();
    rows[static_cast<size_t>(m.below(static_cast<int64_t>(rows.size())))].make(m);
  }
  Tensor* y =
      m.any([&](Tensor* t) { return t->type == x->type && t->has_rank && t->shape == x->shape; });
  const bool adds = x->type == DataType::kFloat && other && other->type == x->type &&
                    other->has_rank && other->shape == x->shape && m.chance(60);
  Tensor* result = adds ? m.binary(PointOp::kAdd, y, other) : nullptr;
  if (!result && x->type == DataType::kFloat)
    result = m.unary(m.pick({PointOp::kTanh, PointOp::kRelu, PointOp::kSigmoid}), y);
  return result ? result : m.unary(PointOp::kIdentity, y);
}

Value number(DataType type, int64_t value) {
  std::vector<std::byte> bytes(ir::bytes_for(type, 1));
  bytes[0] = std::byte(value);
  return kernels::make_value(type, {}, std::move(bytes)).value();
}

Tensor* condition(GraphMaker& m) {
  Tensor* flag = m.any([&](Tensor* t) { return t->type == DataType::kBool && m.rank(t) == 0; });
  if (flag) return flag;
  Tensor* x = m.any([&](Tensor* t) {
    return t->type == DataType::kFloat && m.is_exact(t) && t->has_rank && m.rank(t) >= 1;
  });
  if (!x) return nullptr;
  ir::ReduceAttrs a;
  a.op = ir::ReduceOp::kMax;
  a.keep_dims = false;
  for (int64_t d = 0; d < m.rank(x); ++d) {
    if (m.least(x, d) < 1) return nullptr;
    a.axes.push_back(d);
  }
  Tensor* largest = m.add(LayerKind::kReduce, a, {x});
  return m.binary(PointOp::kGreater, largest, m.scalar(DataType::kFloat, m.real(1.4f, 2)));
}

bool branch(GraphMaker& m) {
  Tensor* flag = condition(m);
  Tensor* x = m.any_float(1, 4);
  Tensor* other = m.any_float(1, 4);
  if (!flag || !x || !x->has_rank || !other->has_rank) return false;
  std::vector<Tensor*> inputs = {flag, x};
  if (other != x) inputs.push_back(other);
  std::vector<std::unique_ptr<ir::Graph>> bodies;
  const bool unequal = m.chance(20) && m.rank(x) > 0 && m.least(x, 0) >= 2;
  for (const char* name : {"then", "else"}) {
    Body body(m, name);
    Tensor* inner = body.like(m, x);
    Tensor* second = other != x ? body.like(m, other) : nullptr;
    Tensor* y = work(body.maker, inner, second);
    if (y && unequal && bodies.empty()) {  // the branches give other extents
      ir::SliceAttrs a;
      a.size = y->shape;
      a.size[0] = 1;
      a.start = Shape(y->shape.size(), Dim(0));
      a.step = Ints(y->shape.size(), 1);
      y = body.maker.add(LayerKind::kSlice, a, {y});
    }
    if (!y) return false;
    body.graph->add_output(y);
    body.graph->remove_unused_tensors();
    bodies.push_back(std::move(body.graph));
  }
  return m.add(LayerKind::kIf, ir::NoAttrs{}, inputs, std::move(bodies));
}

bool loop(GraphMaker& m) {
  Tensor* x = m.any_float(1, 3);
  Tensor* captured = m.any_float(1, 3);
  if (!x || !x->has_rank || !captured->has_rank) return false;
  Tensor* trips = m.chance(60) ? m.scalar(DataType::kInt64, static_cast<double>(m.between(0, 4)))
                               : m.any([&](Tensor* t) {
                                   if (t->type != DataType::kInt64 || m.rank(t) != 0) return false;
                                   for (size_t run = 0; run < m.runs(); ++run)
                                     if (m.value(t, run).to_doubles()[0] > 6) return false;
                                   return true;
                                 });
  if (!trips) return false;
  Body body(m, "body");
  const size_t runs = m.runs();
  body.input("iteration", DataType::kInt64, {},
             std::vector<Value>(runs, number(DataType::kInt64, 0)));
  Tensor* goes_on = body.input("goes_on", DataType::kBool, {},
                               std::vector<Value>(runs, number(DataType::kBool, 1)));
  Tensor* state = body.like(m, x);
  Tensor* outside = captured != x ? body.like(m, captured) : nullptr;
  Tensor* y = work(body.maker, state, outside);
  Tensor* flag = body.maker.unary(PointOp::kIdentity, goes_on);
  if (!y || !flag) return false;
  ir::LoopAttrs a;
  body.graph->add_output(flag);
  body.graph->add_output(y);
  const bool scans = m.chance(50) && y->shape.size() < 5;
  if (scans) {
    Tensor* element = body.maker.unary(PointOp::kAbs, y);
    if (!element) return false;
    body.graph->add_output(element);
    a.scan_output_axes = {0};
    a.scan_output_directions = {0};
  }
  body.graph->remove_unused_tensors();
  std::vector<Tensor*> inputs = {trips, nullptr, x};
  if (captured != x) inputs.push_back(captured);
  std::vector<std::unique_ptr<ir::Graph>> bodies;
  bodies.push_back(std::move(body.graph));
  return m.add_many(LayerKind::kLoop, a, inputs, std::vector<bool>(scans ? 2 : 1, true),
                    std::move(bodies))[0];
}

bool scan(GraphMaker& m) {
  Tensor* x = m.any_float(2, 4);
  if (!x || !x->has_rank || !m.is_static(x) || m.least(x, 0) < 1) return false;
  ir::LoopAttrs a;
  a.num_scan_inputs = 1;
  a.scan_input_axes = {0};
  a.scan_input_directions = {m.below(2)};
  a.scan_output_axes = {m.below(2)};
  a.scan_output_directions = {m.below(2)};
  Shape part = x->shape;
  part.erase(0);
  Extents extents;
  for (const Dim dim : part) extents.push_back(dim.extent());
  if (ir::element_count(extents) == 0) return false;
  Tensor* start = m.floats(extents, -1, 1);
  Body body(m, "body");
  std::vector<Value> slices;  // the first part stands for all
  for (size_t run = 0; run < m.runs(); ++run) {
    const auto bytes =
        m.value(x, run).bytes().first(ir::bytes_for(DataType::kFloat, ir::element_count(extents)));
    slices.push_back(
        kernels::make_value(DataType::kFloat, extents, {bytes.begin(), bytes.end()}).value());
  }
  Tensor* state = body.like(m, start);
  Tensor* element = body.input("part", DataType::kFloat, part, slices);
  Tensor* y = work(body.maker, state, element);
  Tensor* out = y ? body.maker.binary(PointOp::kMul, y, element) : nullptr;
  if (!out) return false;
  body.graph->add_output(y);
  body.graph->add_output(out);
  body.graph->remove_unused_tensors();
  std::vector<std::unique_ptr<ir::Graph>> bodies;
  bodies.push_back(std::move(body.graph));
  return m.add_many(LayerKind::kScan, a, {start, x}, {true, true}, std::move(bodies))[0];
}

constexpr MakerRow kRows[] = {{"if", 10, branch}, {"loop", 8, loop}, {"scan", 5, scan}};

}  // namespace

MakerTable control_makers() {
  return kRows;
}

}  // namespace camshaft::fuzz
