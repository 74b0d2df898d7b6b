// SPDX-License-Identifier: Apache-2.0
// Linear models, scaling, encoders of ai.onnx.ml as products and elementwise layers.
#include "onnx/ops_learning.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/log.h"
#include "onnx/text_labels.h"

namespace camshaft::onnx_import {
namespace {

Status refuse_maps(Node&) {
  return unsupported("maps are not supported, only tensors");
}

// A map from label to probability for every row: the rows themselves, which hold the same. Only a
// caller can read maps, so this is an output of the network.
Status import_zip_map(Node& node) {
  CAMSHAFT_TRY(node.require(1, 1));
  const std::vector<std::string> names = node.texts("classlabels_strings");
  std::vector<std::string> numbers;
  for (const int64_t label : node.integers("classlabels_int64s"))
    numbers.push_back(std::to_string(label));
  const std::vector<std::string>& labels = names.empty() ? numbers : names;
  Tensor* const x = node.input(0);
  if (!x->has_rank || x->shape.empty()) return unsupported("x is not known to have columns");
  const Dim columns = x->shape.back();
  if (columns.is_known() && columns.extent() != static_cast<int64_t>(labels.size()))
    return invalid("{} labels of {} columns", labels.size(), columns.extent());
  log(Severity::kWarning,
      "node {}: {} is a tensor instead of maps, a row per sample with columns for {}", node.name(),
      node.def().outputs[0], list_labels({labels.begin(), labels.end()}));
  return node.emit(LayerKind::kUnary, ir::PointOpAttrs{PointOp::kIdentity}, {x});
}

// x as float rows [rows, features]; a vector is one row.
Result<Tensor*> as_rows(Node& node, Tensor* x) {
  if (!x->has_rank || x->shape.empty() || x->shape.size() > 2)
    return unsupported("x is neither a row nor rows of features");
  CAMSHAFT_ASSIGN(x, node.cast(x->name + "_float", x, DataType::kFloat));
  if (x->shape.size() == 2) return x;
  return node.reshape(x->name + "_row", x, {Dim(1), x->shape[0]});
}

Result<int64_t> features_of(Node& node, const Tensor* rows) {
  const Dim features = rows->shape[1];
  if (!node.symbols().is_number(features))
    return unsupported("x has an unknown number of features");
  return node.symbols().number(features);
}

Tensor* vector_of(Node& node, std::string_view step, const std::vector<float>& values) {
  const Ints extents = {static_cast<int64_t>(values.size())};
  return node.float_constant(step, extents, values);
}

// x · coefficientsᵀ + intercepts, where there are any.
Result<Tensor*> linear_scores(Node& node, int64_t& count) {
  CAMSHAFT_TRY(node.require(1, 1));
  CAMSHAFT_ASSIGN(Tensor* const x, as_rows(node, node.input(0)));
  const std::vector<float> coefficients = node.floats("coefficients"),
                           intercepts = node.floats("intercepts");
  CAMSHAFT_ASSIGN(const int64_t features, features_of(node, x));
  const auto size = static_cast<int64_t>(coefficients.size());
  if (features < 1 || size == 0 || size % features != 0)
    return invalid("{} coefficients of {} features", size, features);
  count = size / features;
  if (!intercepts.empty() && static_cast<int64_t>(intercepts.size()) != count)
    return invalid("{} intercepts of {} scores", intercepts.size(), count);
  const Ints extents = {count, features};
  std::vector<Tensor*> inputs = {x, node.float_constant("coefficients", extents, coefficients)};
  if (!intercepts.empty()) inputs.push_back(vector_of(node, "intercepts", intercepts));
  ir::MatrixMultiplyAttrs attrs;
  attrs.transpose_b = true;
  return node.add("scores", LayerKind::kMatrixMultiply, std::move(attrs), std::move(inputs));
}

Status import_linear_regressor(Node& node) {
  int64_t count = 0;
  CAMSHAFT_ASSIGN(Tensor* const scores, linear_scores(node, count));
  if (node.integer("targets", 1) != count)
    return invalid("{} targets, coefficients of {}", node.integer("targets", 1), count);
  return finish_scores(node, 0, scores, node.text("post_transform", "NONE"));
}

Status import_linear_classifier(Node& node) {
  int64_t count = 0;
  CAMSHAFT_ASSIGN(Tensor* const scores, linear_scores(node, count));
  CAMSHAFT_ASSIGN(const Labels labels, read_labels(node, "classlabels_ints"));
  node.ignore({"multi_class"});  // what the coefficients were fitted for
  const std::string post = node.text("post_transform", "NONE");
  const auto classes = static_cast<int64_t>(labels.size());
  if (count == 1 && classes == 2) {
    CAMSHAFT_TRY(give_one_sided_labels(node, scores, 0, labels));
    return give_pair(node, scores, post, true);
  }
  if (count != classes) return invalid("{} labels, coefficients of {}", classes, count);
  CAMSHAFT_TRY(give_best_labels(node, scores, labels));
  return finish_scores(node, 1, scores, post);
}

Status import_scaler(Node& node) {
  CAMSHAFT_TRY(node.require(1, 1));
  CAMSHAFT_ASSIGN(Tensor * x, node.cast("float", node.input(0), DataType::kFloat));
  const std::vector<float> offset = node.floats("offset"), scale = node.floats("scale");
  if (!offset.empty()) {
    CAMSHAFT_ASSIGN(x, node.binary("shifted", PointOp::kSub, x, vector_of(node, "offset", offset)));
  }
  if (scale.empty()) return node.emit(LayerKind::kUnary, ir::PointOpAttrs{PointOp::kIdentity}, {x});
  return node.emit(LayerKind::kElementWise, ir::PointOpAttrs{PointOp::kMul},
                   {x, vector_of(node, "scale", scale)});
}

// Rows of norm 0 stay as they are.
Status import_normalizer(Node& node) {
  CAMSHAFT_TRY(node.require(1, 1));
  CAMSHAFT_ASSIGN(Tensor* const x, node.cast("float", node.input(0), DataType::kFloat));
  CAMSHAFT_ASSIGN(const size_t rank, node.rank(0));
  if (rank == 0) return invalid("x is a scalar");
  const std::string norm = node.text("norm", "MAX");
  ir::ReduceAttrs attrs;
  attrs.axes = {static_cast<int64_t>(rank) - 1};
  if (norm == "MAX")
    attrs.op = ir::ReduceOp::kMax;
  else if (norm == "L1")
    attrs.op = ir::ReduceOp::kL1;
  else if (norm == "L2")
    attrs.op = ir::ReduceOp::kL2;
  else
    return invalid("norm \"{}\"", norm);
  CAMSHAFT_ASSIGN(Tensor* const length, node.add("norm", LayerKind::kReduce, attrs, {x}));
  Tensor* const zero = node.scalar_like("zero", DataType::kFloat, 0);
  Tensor* const one = node.scalar_like("one", DataType::kFloat, 1);
  CAMSHAFT_ASSIGN(Tensor* const is_zero, node.binary("is_zero", PointOp::kEqual, length, zero));
  CAMSHAFT_ASSIGN(Tensor* const divisor,
                  node.add("divisor", LayerKind::kSelect, ir::PointOpAttrs{PointOp::kSelect},
                           {is_zero, one, length}));
  return node.emit(LayerKind::kElementWise, ir::PointOpAttrs{PointOp::kDiv}, {x, divisor});
}

Status import_imputer(Node& node) {
  CAMSHAFT_TRY(node.require(1, 1));
  Tensor* const x = node.input(0);
  const std::vector<float> floats = node.floats("imputed_value_floats");
  const Ints ints = node.integers("imputed_value_int64s");
  const double replaced_float = node.real("replaced_value_float", 0);
  const int64_t replaced_int = node.integer("replaced_value_int64", 0);
  if (floats.empty() && ints.empty()) return invalid("no imputed values");
  const Ints extents = {static_cast<int64_t>(ints.size())};
  CAMSHAFT_ASSIGN(Tensor* const values,
                  node.cast("imputed_as_x",
                            floats.empty() ? node.int_constant("imputed", extents, ints)
                                           : vector_of(node, "imputed", floats),
                            x->type));
  const bool is_nan = !floats.empty() && std::isnan(replaced_float);
  const double replaced = floats.empty() ? static_cast<double>(replaced_int) : replaced_float;
  CAMSHAFT_ASSIGN(Tensor* const missing,
                  is_nan ? node.unary("missing", PointOp::kIsNan, x)
                         : node.binary("missing", PointOp::kEqual, x,
                                       node.scalar_like("replaced", x->type, replaced)));
  return node.emit(LayerKind::kSelect, ir::PointOpAttrs{PointOp::kSelect}, {missing, values, x});
}

// Inputs side by side, as floats; `inputdimensions` says again how wide they are.
Status import_feature_vectorizer(Node& node) {
  CAMSHAFT_TRY(node.require(1));
  node.ignore({"inputdimensions"});
  std::vector<Tensor*> parts;
  for (Tensor* input : node.inputs()) {
    CAMSHAFT_ASSIGN(Tensor* const part, as_rows(node, input));
    parts.push_back(part);
  }
  return node.emit(LayerKind::kConcatenation, ir::AxisAttrs{1}, std::move(parts));
}

Status import_one_hot_encoder(Node& node) {
  CAMSHAFT_TRY(node.require(1, 1));
  if (node.has_attribute("cats_strings")) return refuse_strings(node);
  return import_generic(node);
}

// Columns by their numbers: a Gather, where the numbers are known (it would take some below 0,
// too).
Status import_feature_extractor(Node& node) {
  CAMSHAFT_TRY(node.require(2, 2));
  Tensor* const x = node.input(0);
  const std::optional<Ints> columns = node.numbers(1);
  const bool is_plain = columns && !columns->empty() && x->has_rank && x->shape.size() > 1 &&
                        *std::min_element(columns->begin(), columns->end()) >= 0;
  if (!is_plain) return import_generic(node);
  const Ints extents = {static_cast<int64_t>(columns->size())};
  ir::GatherAttrs attrs;
  attrs.axis = static_cast<int64_t>(x->shape.size()) - 1;
  return node.emit(LayerKind::kGather, attrs, {x, node.int_constant("columns", extents, *columns)});
}

// Keys, values and the default as constants, in the first of the spellings that is there.
struct Table {
  Tensor *keys = nullptr, *values = nullptr, *fallback = nullptr;
};

Result<Tensor*> read_table(Node& node, const std::string& what) {
  if (const AttributeDef* found = node.attribute(what + "_tensor", AttributeType::kTensor);
      found && found->tensor) {
    Session& session = node.scope().session;
    CAMSHAFT_ASSIGN(const TensorData data,
                    read_tensor(*found->tensor, session.external, session.model.owner));
    return node.graph().add_constant(node.name() + "/" + what, data.type, data.extents, data.data);
  }
  const Ints ints = node.integers(what + "_int64s");
  const std::vector<float> floats = node.floats(what + "_floats");
  if (!floats.empty()) return vector_of(node, what, floats);
  if (ints.empty()) return unsupported("{} that are strings: only numbers are supported", what);
  const Ints extents = {static_cast<int64_t>(ints.size())};
  return node.int_constant(what, extents, ints);
}

Status import_label_encoder(Node& node) {
  CAMSHAFT_TRY(node.require(1, 1));
  for (const char* name : {"keys_strings", "values_strings", "classes_strings"})
    if (node.has_attribute(name)) return refuse_strings(node);
  node.ignore({"default_string"});
  CAMSHAFT_ASSIGN(Tensor* const keys, read_table(node, "keys"));
  CAMSHAFT_ASSIGN(Tensor* const values, read_table(node, "values"));
  Tensor* fallback = nullptr;
  if (node.has_attribute("default_tensor")) {
    CAMSHAFT_ASSIGN(fallback, read_table(node, "default"));
  } else {
    const bool whole = !ir::is_floating(values->type);
    const double number = whole ? static_cast<double>(node.integer("default_int64", -1))
                                : node.real("default_float", -0.0f);
    fallback = node.scalar_like("default", values->type, number);
  }
  node.ignore({"default_int64", "default_float"});
  return node.emit(LayerKind::kGeneric, ir::GenericAttrs{"LabelEncoder", node.opset(), {}},
                   {node.input(0), keys, values, fallback});
}

}  // namespace

Result<RealList> read_tensor_reals(Node& node, const std::string& name) {
  RealList list;
  const AttributeDef* found = node.attribute(name, AttributeType::kTensor);
  if (!found || !found->tensor) return list;
  Session& session = node.scope().session;
  CAMSHAFT_ASSIGN(const TensorData data,
                  read_tensor(*found->tensor, session.external, session.model.owner));
  if (ir::bits_of(data.type) < 8) return unsupported("{} of {}", name, ir::type_name(data.type));
  list.type = data.type == DataType::kDouble ? DataType::kDouble : DataType::kFloat;
  for (int64_t k = 0; k < ir::element_count(data.extents); ++k)
    list.values.push_back(read_element(data.type, data.data->view.data(), k));
  return list;
}

Result<RealList> read_reals(Node& node, const std::string& name) {
  if (node.has_attribute(name + "_as_tensor")) return read_tensor_reals(node, name + "_as_tensor");
  const std::vector<float> values = node.floats(name);
  return RealList{{values.begin(), values.end()}, DataType::kFloat};
}

Result<Labels> read_labels(Node& node, const std::string& name) {
  if (node.has_attribute("classlabels_strings"))
    return unsupported(
        "class labels that are strings: only numbers are supported, so fit on label numbers");
  const Labels labels = node.integers(name);
  if (labels.empty()) return invalid("no class labels");
  return labels;
}

Status give_best_labels(Node& node, Tensor* scores, const Labels& labels) {
  if (!node.wants(0)) return ok_status();
  ir::TopKAttrs best;
  best.axis = 1;
  best.keep_dims = false;
  CAMSHAFT_ASSIGN(Tensor* const index, node.add("best", LayerKind::kArgMinMax, best, {scores}));
  const Ints extents = {static_cast<int64_t>(labels.size())};
  return node.emit_to(0, LayerKind::kGather, ir::GatherAttrs{},
                      {node.int_constant("labels", extents, labels), index});
}

Status give_one_sided_labels(Node& node, Tensor* score, double threshold, const Labels& labels) {
  if (!node.wants(0)) return ok_status();
  CAMSHAFT_ASSIGN(Tensor* const flat, node.reshape("score_of_row", score, {score->shape[0]}));
  CAMSHAFT_ASSIGN(Tensor* const above,
                  node.binary("above", PointOp::kGreater, flat,
                              node.scalar_like("threshold", DataType::kFloat, threshold)));
  const auto label = [&](std::string_view step, int64_t value) {
    return node.int_constant(step, {}, std::span(&value, 1));
  };
  return node.emit_to(0, LayerKind::kSelect, ir::PointOpAttrs{PointOp::kSelect},
                      {above, label("second_label", labels[1]), label("first_label", labels[0])});
}

Status finish_scores(Node& node, size_t k, Tensor* scores, std::string_view post_transform) {
  if (post_transform == "NONE")
    return node.emit_to(k, LayerKind::kUnary, ir::PointOpAttrs{PointOp::kIdentity}, {scores});
  if (post_transform == "LOGISTIC")
    return node.emit_to(k, LayerKind::kActivation, ir::PointOpAttrs{PointOp::kSigmoid}, {scores});
  if (post_transform == "SOFTMAX")
    return node.emit_to(k, LayerKind::kSoftMax, ir::SoftMaxAttrs{1, 1}, {scores});
  return unsupported("post_transform {}: NONE, LOGISTIC and SOFTMAX are supported", post_transform);
}

Status give_pair(Node& node, Tensor* score, std::string_view post_transform, bool is_probability) {
  const bool logistic = post_transform == "LOGISTIC";
  if (!logistic && post_transform != "NONE" && post_transform != "SOFTMAX")
    return unsupported("post_transform {}: NONE, LOGISTIC and SOFTMAX are supported",
                       post_transform);
  Tensor* const from = node.scalar_like("from", DataType::kFloat, is_probability && !logistic);
  CAMSHAFT_ASSIGN(Tensor* const other, node.binary("other", PointOp::kSub, from, score));
  if (!logistic)
    return node.emit_to(1, LayerKind::kConcatenation, ir::AxisAttrs{1}, {other, score});
  CAMSHAFT_ASSIGN(Tensor* const both,
                  node.add("both", LayerKind::kConcatenation, ir::AxisAttrs{1}, {other, score}));
  return finish_scores(node, 1, both, post_transform);
}

std::span<const OperatorRow> learning_operators() {
  static constexpr OperatorRow kOperators[] = {
      {"LinearRegressor", import_linear_regressor},
      {"LinearClassifier", import_linear_classifier},
      {"Scaler", import_scaler},
      {"Normalizer", import_normalizer},
      {"Imputer", import_imputer},
      {"FeatureVectorizer", import_feature_vectorizer},
      {"OneHotEncoder", import_one_hot_encoder},
      {"ArrayFeatureExtractor", import_feature_extractor},
      {"LabelEncoder", import_label_encoder},
      {"ZipMap", import_zip_map},
      {"CastMap", refuse_maps},
      {"DictVectorizer", refuse_maps},
      {"CategoryMapper", refuse_strings},
  };
  return kOperators;
}

}  // namespace camshaft::onnx_import
