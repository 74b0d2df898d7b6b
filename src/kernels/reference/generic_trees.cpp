// SPDX-License-Identifier: Apache-2.0
// Tree ensembles, as the importer lays them out (onnx/ops_trees.cpp).
#include <cmath>

#include "kernels/reference/generic.h"

namespace camshaft::kernels::reference {
namespace {

// Inputs: 0 x [rows, features] (or one row), 1 nodes [n, 5], 2 splits [n], 3 targets [w] and
// 4 weights [w] of leaves, 5 roots [trees], 6 members of sets, each set ended by a NaN. A node is
// feature, mode, where to go if true, if false, whether a NaN counts as true; of a leaf the first
// of its weights and their number.
enum Input : size_t { kX, kNodes, kSplits, kTargets, kWeights, kRoots, kMembers };
enum Mode : int32_t { kLeq, kLt, kGte, kGt, kEq, kNeq, kMember, kLeaf };
enum Aggregate : int64_t { kAverage, kSum, kMin, kMax };
constexpr int64_t kNodeFields = 5;

// T: of splits, weights and members, which are read where they are: a forest is larger than a batch
// of rows.
template <class T>
class Forest {
 public:
  explicit Forest(const Call& call)
      : nodes_(call.in(kNodes).as<const int32_t>()),
        splits_(values_of(call, kSplits)),
        targets_(call.in(kTargets).as<const int32_t>()),
        weights_(values_of(call, kWeights)),
        members_(values_of(call, kMembers)),
        roots_(call.in(kRoots).as<const int32_t>(),
               static_cast<size_t>(call.in(kRoots).elements())),
        aggregate_(call.integer("aggregate_function", kSum)) {}

  // A forest that no importer made: indices anywhere.
  bool is_sound(int64_t features, int64_t scores) const {
    const auto count = static_cast<int64_t>(splits_.size());
    const auto weights = static_cast<int64_t>(weights_.size());
    for (int64_t k = 0; k < count; ++k) {
      const int32_t* node = nodes_ + k * kNodeFields;
      if (node[1] == kLeaf) {
        if (node[2] < 0 || node[3] < 0 || int64_t{node[2]} + node[3] > weights) return false;
      } else if (node[0] < 0 || node[0] >= features || node[2] < 0 || node[2] >= count ||
                 node[3] < 0 || node[3] >= count) {
        return false;
      } else if (node[1] == kMember &&
                 !(splits_[k] >= 0 && splits_[k] < static_cast<double>(members_.size()))) {
        return false;
      }
    }
    for (int64_t k = 0; k < weights; ++k)
      if (targets_[k] < 0 || targets_[k] >= scores) return false;
    for (int32_t root : roots_)
      if (root < 0 || root >= count) return false;
    return members_.empty() || std::isnan(members_.back());
  }

  void score(const double* x, std::span<double> scores, bool* reached) const {
    for (int32_t root : roots_) {
      const int32_t* leaf = walk(root, x);
      for (int32_t k = leaf[2]; k < leaf[2] + leaf[3]; ++k) {
        double& score = scores[targets_[k]];
        bool& was_reached = reached[targets_[k]];
        if (aggregate_ == kMin || aggregate_ == kMax) {
          const bool better = aggregate_ == kMin ? weights_[k] < score : weights_[k] > score;
          if (!was_reached || better) score = weights_[k];
        } else {
          score += weights_[k];
        }
        was_reached = true;
      }
    }
    if (aggregate_ == kAverage)
      for (double& score : scores) score /= static_cast<double>(roots_.size());
  }

 private:
  static std::span<const T> values_of(const Call& call, size_t k) {
    const TensorView view = call.in(k);
    return {view.as<const T>(), static_cast<size_t>(view.elements())};
  }

  bool is_member(double x, size_t first) const {
    for (size_t k = first; !std::isnan(members_[k]); ++k)
      if (members_[k] == x) return true;
    return false;
  }

  bool holds(int32_t mode, double x, double split) const {
    switch (mode) {
      case kLeq:
        return x <= split;
      case kLt:
        return x < split;
      case kGte:
        return x >= split;
      case kGt:
        return x > split;
      case kEq:
        return x == split;
      case kNeq:
        return x != split;
      default:
        return is_member(x, static_cast<size_t>(split));
    }
  }

  // At most as many steps as there are nodes: a circle ends somewhere.
  const int32_t* walk(int32_t k, const double* x) const {
    for (size_t step = 0; step < splits_.size(); ++step) {
      const int32_t* node = nodes_ + k * kNodeFields;
      if (node[1] == kLeaf) return node;
      const double value = x[node[0]];
      const bool is_true = holds(node[1], value, splits_[k]) || (node[4] != 0 && std::isnan(value));
      k = node[is_true ? 2 : 3];
    }
    static constexpr int32_t kNothing[kNodeFields] = {0, kLeaf, 0, 0, 0};
    return kNothing;
  }

  const int32_t* nodes_;
  std::span<const T> splits_;
  const int32_t* targets_;
  std::span<const T> weights_, members_;
  std::span<const int32_t> roots_;
  int64_t aggregate_;
};

Status check_types(const Call& call) {
  CAMSHAFT_TRY(call.require(7));
  CAMSHAFT_TRY(call.require_rank(kX, 1));
  for (size_t k : {kNodes, kTargets, kRoots})
    if (call.in(k).type != DataType::kInt32 || !is_dense(call.in(k)))
      return make_error(ErrorCode::kInvalidArgument, "TreeEnsemble: input {} is not int32", k);
  for (size_t k : {kSplits, kWeights, kMembers})
    if (call.in(k).type != call.in(kWeights).type || !is_dense(call.in(k)))
      return make_error(ErrorCode::kInvalidArgument, "TreeEnsemble: input {} has another type", k);
  if (call.in(kNodes).elements() != call.in(kSplits).elements() * kNodeFields ||
      call.in(kTargets).elements() != call.in(kWeights).elements() || call.in(kX).rank > 2)
    return make_error(ErrorCode::kInvalidArgument, "TreeEnsemble: inputs that do not fit");
  return ok_status();
}

template <class T>
Status run_forest(const KernelArgs& args, const Call& call, Outputs& outputs) {
  const TensorView x = call.in(kX);
  const int64_t features = x.extents[x.rank - 1], rows = x.rank == 2 ? x.extents[0] : 1,
                targets = call.integer("n_targets", 1);
  const Extents extents = {rows, targets};
  if (targets < 1) return make_error(ErrorCode::kInvalidArgument, "{} targets", targets);
  CAMSHAFT_TRY(check_extents(extents));
  const Forest<T> forest(call);
  if (!forest.is_sound(features, targets))
    return make_error(ErrorCode::kInvalidArgument,
                      "TreeEnsemble: a node asks for a feature, node or weight that is not there "
                      "(x has {} features)",
                      features);
  const std::vector<double> values = call.doubles(kX);
  std::vector<double> scores(static_cast<size_t>(rows * targets));
  const auto reached = std::make_unique<bool[]>(static_cast<size_t>(rows * targets));
  constexpr int64_t kRows = 64;  // of a task: some 10 µs of fifty trees
  parallel(args, (rows + kRows - 1) / kRows, [&](int64_t task) {
    for (int64_t row = task * kRows; row < std::min(rows, (task + 1) * kRows); ++row)
      forest.score(values.data() + row * features,
                   std::span(scores).subspan(static_cast<size_t>(row * targets),
                                             static_cast<size_t>(targets)),
                   reached.get() + row * targets);
  });
  outputs.push_back(produce(call.in(kWeights).type, extents, scores));
  DynamicOutput mask{extents, DataType::kBool, {}};
  const auto* bytes = reinterpret_cast<const std::byte*>(reached.get());
  mask.bytes.assign(bytes, bytes + rows * targets);
  outputs.push_back(std::move(mask));
  return ok_status();
}

Status tree_ensemble(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(check_types(call));
  switch (call.in(kWeights).type) {
    case DataType::kFloat:
      return run_forest<float>(args, call, outputs);
    case DataType::kDouble:
      return run_forest<double>(args, call, outputs);
    default:
      return make_error(ErrorCode::kUnsupported, "TreeEnsemble: weights that are no floats");
  }
}

}  // namespace

std::span<const GenericRow> generic_trees_operators() {
  static constexpr GenericRow kRows[] = {{"TreeEnsemble", {nullptr, appending<tree_ensemble>}}};
  return kRows;
}

}  // namespace camshaft::kernels::reference
