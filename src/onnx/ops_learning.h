// SPDX-License-Identifier: Apache-2.0
// What the operators of ai.onnx.ml (classic estimators, as skl2onnx and its relatives export them)
// share: lists of numbers in two spellings, class labels, what follows the scores.
#pragma once

#include "onnx/node.h"

namespace camshaft::onnx_import {

struct RealList {
  std::vector<double> values;
  DataType type = DataType::kFloat;  // float or double
};
// A list of floats, or a tensor attribute of the same name with "_as_tensor". Absent: empty.
Result<RealList> read_reals(Node& node, const std::string& name);
Result<RealList> read_tensor_reals(Node& node, const std::string& name);

using Labels = Ints;
// Integer class labels; texts are refused.
Result<Labels> read_labels(Node& node, const std::string& name);

// The node's output 0: per row the label of the largest score.
Status give_best_labels(Node& node, Tensor* scores, const Labels& labels);
// The same of one score [rows, 1]: the second label where it is above `threshold`.
Status give_one_sided_labels(Node& node, Tensor* score, double threshold, const Labels& labels);

// The node's output k: scores [rows, classes] after NONE, LOGISTIC or SOFTMAX.
Status finish_scores(Node& node, size_t k, Tensor* scores, std::string_view post_transform);
// The node's output 1 of one score [rows, 1]: [1 - p, p] of a probability, [-s, s] of a margin,
// [logistic(-s), logistic(s)].
Status give_pair(Node& node, Tensor* score, std::string_view post_transform, bool is_probability);

}  // namespace camshaft::onnx_import
