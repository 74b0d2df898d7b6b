// SPDX-License-Identifier: Apache-2.0
// LoopBatching: a Loop that looks up a bag of rows per iteration and adds them up (EmbeddingBag as
// TorchScript exports it), bags of one length lying one behind the other, is one look-up of all
// bags and one reduction. The same additions in the same order.
#include <algorithm>

#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

// Nothing but extents of 1 come and go.
const Tensor* without_reshapes(const Tensor* tensor) {
  while (const Layer* shuffle = producer_of_kind(tensor, LayerKind::kShuffle)) {
    const auto& a = shuffle->as<ShuffleAttrs>();
    const Tensor* x = shuffle->inputs[0];
    if (!a.first_transpose.empty() || !a.second_transpose.empty() || !x->has_rank ||
        !unit_reshape(x->shape, tensor->shape))
      break;
    tensor = x;
  }
  return tensor;
}

bool is_true(const Tensor* tensor) {
  return !tensor || (tensor->type == DataType::kBool && uniform_value(tensor) == 1.0);
}

// What a body does with the bag of an iteration.
struct Bags {
  const Tensor *table = nullptr, *indices = nullptr;  // of the body
  ReduceOp op = ReduceOp::kSum;
  int64_t count = 0, length = 0;
};

// The elements of a list that a body knows: a constant, or what was known when it was captured.
Ints elements_of(const Tensor* list) {
  if (list->is_constant()) return integers_of(list);
  Ints values;
  if (!list->facts.shape_value) return values;
  for (const Dim dim : *list->facts.shape_value) {
    if (!dim.is_known()) return {};
    values.push_back(dim.extent());
  }
  return values;
}

// The list of which `tensor` is the element numbered by the iteration.
Ints listed(const Tensor* tensor, const Tensor* iteration) {
  const Layer* gather = producer_of_kind(without_reshapes(tensor), LayerKind::kGather);
  if (!gather || gather->inputs[1] != iteration || gather->as<GatherAttrs>().axis != 0) return {};
  const Tensor* list = gather->inputs[0];
  return list->has_rank && list->shape.size() == 1 ? elements_of(list) : Ints();
}

// starts[k] = k * length, ends[k] = starts[k + 1]; 0: they are not.
int64_t length_of(const Ints& starts, const Ints& ends, int64_t count) {
  const auto least = static_cast<size_t>(count);
  if (count < 1 || starts.size() < least || ends.size() < least) return 0;
  const int64_t length = ends[0];
  for (size_t k = 0; k < least; ++k) {
    const auto at = static_cast<int64_t>(k);
    if (starts[k] != at * length || ends[k] != (at + 1) * length) return 0;
  }
  return std::max<int64_t>(length, 0);
}

// Slice(x, start, end, [0]) of a vector.
bool is_plain_slice(const Layer& slice) {
  const auto& a = slice.as<SliceAttrs>();
  if (!a.start.empty() || slice.inputs.size() < 3 || !slice.inputs[0]->has_rank ||
      slice.inputs[0]->shape.size() != 1)
    return false;
  const Tensor *axes = input_at(slice, 3), *steps = input_at(slice, 4);
  return (!axes || integers_of(axes) == Ints{0}) && (!steps || integers_of(steps) == Ints{1});
}

bool find_bags(const Layer& loop, Bags& bags) {
  const Graph& body = *loop.bodies[0];
  const Tensor *trips = input_at(loop, 0), *condition = input_at(loop, 1);
  if (body.outputs().size() != 2 || loop.outputs.size() != 1 || !loop.outputs[0] || !trips ||
      !trips->is_constant() || !is_true(condition))
    return false;
  const Ints count = integers_of(trips);
  const Tensor* goes_on = without_copies(body.outputs()[0]);
  if (count.size() != 1 || (goes_on != body.inputs()[1] && !is_true(goes_on))) return false;
  bags.count = count[0];
  const Tensor* sum = without_reshapes(without_copies(body.outputs()[1]));
  const Layer* reduce = producer_of_kind(sum, LayerKind::kReduce);
  if (!reduce || reduce->inputs.size() != 1 || reduce->as<ReduceAttrs>().axes != Ints{0})
    return false;
  bags.op = reduce->as<ReduceAttrs>().op;
  const Layer* gather = producer_of_kind(reduce->inputs[0], LayerKind::kGather);
  if (!gather || gather->as<GatherAttrs>().axis != 0 ||
      gather->as<GatherAttrs>().mode != GatherMode::kDefault)
    return false;
  bags.table = gather->inputs[0];
  const Layer* slice = producer_of_kind(gather->inputs[1], LayerKind::kSlice);
  if (!slice || !is_plain_slice(*slice)) return false;
  bags.indices = slice->inputs[0];
  const Tensor* iteration = body.inputs()[0];
  bags.length = length_of(listed(slice->inputs[1], iteration), listed(slice->inputs[2], iteration),
                          bags.count);
  // Of a shorter list, the last slices would be shorter.
  const Shape& shape = bags.indices->shape;
  return bags.length > 0 && loop.outputs[0]->has_rank && all_known(loop.outputs[0]->shape) &&
         bags.table->has_rank && bags.table->shape.size() == 2 && all_known(bags.table->shape) &&
         shape[0].is_known() && shape[0].extent() >= bags.count * bags.length;
}

// What a body sees as `inside`, in the graph around it; null: only the body has it.
Tensor* outside_of(Rewriter& rewriter, const Layer& loop, const Tensor* inside) {
  const auto& inputs = loop.bodies[0]->inputs();
  const auto at = std::find(inputs.begin(), inputs.end(), inside);
  if (at != inputs.end()) return loop.inputs[static_cast<size_t>(at - inputs.begin())];
  if (!inside->is_constant()) return nullptr;
  return rewriter.add_constant_like(*inside);
}

class Batching {
 public:
  Batching(Rewriter& rewriter, Layer* loop) : rewriter_(rewriter), loop_(loop) {}

  void run(const Bags& bags, Tensor* table, Tensor* indices) {
    const Dim count(bags.count), length(bags.length), width = table->shape[1];
    const int64_t used = bags.count * bags.length;
    if (indices->shape[0] != Dim(used)) {
      SliceAttrs first = slice_along(indices->shape, 0, 0);
      first.size[0] = Dim(used);
      const Shape shape = first.size;
      indices = add("used", LayerKind::kSlice, first, {indices}, indices->type, shape);
    }
    ShuffleAttrs rows;
    rows.has_reshape = true;
    rows.reshape = {count, length};
    indices =
        add("bags", LayerKind::kShuffle, rows, {indices}, indices->type, Shape{count, length});
    Tensor* looked_up = add("rows", LayerKind::kGather, GatherAttrs(), {table, indices},
                            table->type, Shape{count, length, width});
    ReduceAttrs sum;
    sum.op = bags.op;
    sum.axes = {1};
    Tensor* sums =
        add("sums", LayerKind::kReduce, sum, {looked_up}, table->type, Shape{count, Dim(1), width});
    ShuffleAttrs flat;
    flat.has_reshape = true;
    flat.reshape = {count, width};
    Layer* group[] = {loop_};
    rewriter_.replace(group, LayerKind::kShuffle, flat, {sums}, loop_->name);
  }

 private:
  Tensor* add(const std::string& what, LayerKind kind, Attrs attrs, std::vector<Tensor*> inputs,
              DataType type, const Shape& shape) {
    Tensor* y = rewriter_.add_tensor(loop_->name + " (" + what + ")", type, shape);
    rewriter_.insert_before(loop_, kind, loop_->name + " (" + what + ")", std::move(attrs),
                            std::move(inputs), {y}, {loop_});
    return y;
  }

  Rewriter& rewriter_;
  Layer* loop_;
};

}  // namespace

int loop_batching(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "LoopBatching", records);
  for (size_t k = 0; k < graph.layers().size(); ++k) {
    Layer* loop = graph.layers()[k].get();
    if (loop->kind != LayerKind::kLoop) continue;
    rewriter.running(*loop);
    Bags bags;
    if (!find_bags(*loop, bags)) {
      rewriter.declined(*loop, {Reason::kShape, "its body does not add up bags of one length"});
      continue;
    }
    Tensor* table = outside_of(rewriter, *loop, bags.table);
    Tensor* indices = outside_of(rewriter, *loop, bags.indices);
    if (!table || !indices) continue;
    rewriter.applied(Action::kConvert, *loop, "Batching " + loop->name);
    Batching(rewriter, loop).run(bags, table, indices);
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
