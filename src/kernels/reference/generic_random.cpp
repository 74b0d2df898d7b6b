// SPDX-License-Identifier: Apache-2.0
// Random numbers and training: RandomUniform, RandomNormal (and Like), Bernoulli, Multinomial,
// Dropout, Adagrad, Adam, Momentum.
#include <algorithm>

#include "kernels/dropped_elements.h"
#include "kernels/random_numbers.h"
#include "kernels/reference/generic.h"

namespace camshaft::kernels::reference {
namespace {

// Extents and type: those of the input for the …Like forms, else the attributes `shape` and
// `dtype`.
template <class Draw>
Status fill_random(const KernelArgs& args, Outputs& outputs, const Draw& draw) {
  const Call call(args);
  const Ints shape = call.list("shape");
  if (shape.size() > ir::kMaxRank)
    return make_error(ErrorCode::kUnsupported, "{} of rank {}", call.op_type(), shape.size());
  const Extents extents = call.has_input(0) ? call.extents(0) : Extents(shape.begin(), shape.end());
  const DataType fallback = call.has_input(0) ? call.in(0).type : DataType::kFloat;
  CAMSHAFT_TRY(check_extents(extents));
  RandomNumbers random(stated_seed(*call.args().layer));
  std::vector<double> values(count_of(extents));
  for (double& value : values) value = draw(call, random);
  outputs.push_back(produce(call.has("dtype") ? from_onnx_type(call.integer("dtype", 1)) : fallback,
                            extents, values));
  return ok_status();
}

Status random_uniform(const KernelArgs& args, Outputs& outputs) {
  return fill_random(args, outputs, [](const Call& call, RandomNumbers& random) {
    const double low = call.real("low", 0);
    return low + (call.real("high", 1) - low) * random.uniform();
  });
}

Status random_normal(const KernelArgs& args, Outputs& outputs) {
  return fill_random(args, outputs, [](const Call& call, RandomNumbers& random) {
    return call.real("mean", 0) + call.real("scale", 1) * random.normal();
  });
}

Status bernoulli(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require(1));
  std::vector<double> p = call.doubles(0);
  RandomNumbers random(stated_seed(*call.args().layer));
  for (double& value : p) value = random.uniform() < value;
  outputs.push_back(
      produce(call.has("dtype") ? from_onnx_type(call.integer("dtype", 1)) : call.in(0).type,
              call.extents(0), p));
  return ok_status();
}

// Unnormalized log probabilities [batch, classes] → [batch, sample_size] classes.
Status multinomial(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  const Extents extents = call.extents(0);
  if (extents.size() != 2 || extents[1] < 1)
    return make_error(ErrorCode::kInvalidArgument, "Multinomial takes a matrix");
  const std::vector<double> x = call.doubles(0);
  const int64_t samples = call.integer("sample_size", 1), classes = extents[1];
  CAMSHAFT_TRY(check_extents(Extents{extents[0], samples}));
  RandomNumbers random(stated_seed(*call.args().layer));
  Ints drawn;
  for (int64_t n = 0; n < extents[0]; ++n) {
    const double maximum =
        *std::max_element(x.data() + n * classes, x.data() + n * classes + classes);
    std::vector<double> cumulative(classes);
    double sum = 0;
    for (int64_t c = 0; c < classes; ++c)
      cumulative[c] = sum += std::exp(x[n * classes + c] - maximum);
    for (int64_t s = 0; s < samples; ++s) {
      const double wanted = random.uniform() * sum;
      drawn.push_back(std::min<int64_t>(
          std::upper_bound(cumulative.begin(), cumulative.end(), wanted) - cumulative.begin(),
          classes - 1));
    }
  }
  outputs.push_back(
      produce(from_onnx_type(call.integer("dtype", 6)), {extents[0], samples}, drawn));
  return ok_status();
}

// x, ratio, training mode → y, mask.
Status dropout(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require(1));
  const double ratio = call.has_input(1) ? call.scalar(1, 0.5) : call.real("ratio", 0.5);
  const bool training = call.integer_scalar(2, 0) != 0;
  const TensorView& x = call.in(0);
  const Extents extents = call.extents(0);
  outputs.push_back(produce(x.type, extents, call.doubles(0)));
  outputs.push_back(produce(DataType::kBool, extents, Ints(x.elements(), 1)));
  if (training && ratio != 0)
    drop_elements(x, ratio, stated_seed(*call.args().layer),
                  make_view(outputs[0].bytes.data(), x.type, Format::kLinear, extents),
                  make_view(outputs[1].bytes.data(), DataType::kBool, Format::kLinear, extents));
  return ok_status();
}

// --- optimizers: inputs rate, count, then n tensors of each kind, kind after kind

// The inputs of one kind for all n tensors, loaded.
std::vector<std::vector<double>> kind_of(const Call& call, size_t kind, size_t n) {
  std::vector<std::vector<double>> tensors;
  for (size_t k = 0; k < n; ++k) tensors.push_back(call.doubles(2 + kind * n + k));
  return tensors;
}

Status check_optimizer(const Call& call, size_t kinds, size_t n) {
  if (n == 0 || call.args().inputs.size() != 2 + kinds * n)
    return make_error(ErrorCode::kInvalidArgument, "{} with {} inputs", call.op_type(),
                      call.args().inputs.size());
  CAMSHAFT_TRY(call.require(2 + kinds * n));
  for (size_t kind = 1; kind < kinds; ++kind)
    for (size_t k = 0; k < n; ++k)
      if (call.in(2 + kind * n + k).elements() != call.in(2 + k).elements())
        return make_error(ErrorCode::kInvalidArgument, "{}: tensors of different size",
                          call.op_type());
  return ok_status();
}

void give_all(const Call& call, size_t n, const std::vector<std::vector<double>>& values,
              Outputs& outputs) {
  for (size_t k = 0; k < n; ++k)
    outputs.push_back(produce(call.in(2 + k).type, call.extents(2 + k), values[k]));
}

Status adagrad(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  const size_t n = args.inputs.size() < 2 ? 0 : (args.inputs.size() - 2) / 3;
  CAMSHAFT_TRY(check_optimizer(call, 3, n));
  const double rate = call.scalar(0, 0) / (1 + call.scalar(1, 0) * call.real("decay_factor", 0));
  const double norm = call.real("norm_coefficient", 0), epsilon = call.real("epsilon", 0);
  auto x = kind_of(call, 0, n), h = kind_of(call, 2, n);
  const auto g = kind_of(call, 1, n);
  for (size_t k = 0; k < n; ++k) {
    for (size_t e = 0; e < x[k].size(); ++e) {
      const double gradient = norm * x[k][e] + g[k][e];
      h[k][e] += gradient * gradient;
      x[k][e] -= rate * gradient / (std::sqrt(h[k][e]) + epsilon);
    }
  }
  give_all(call, n, x, outputs);
  give_all(call, n, h, outputs);
  return ok_status();
}

Status adam(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  const size_t n = args.inputs.size() < 2 ? 0 : (args.inputs.size() - 2) / 4;
  CAMSHAFT_TRY(check_optimizer(call, 4, n));
  const double alpha = call.real("alpha", 0.9), beta = call.real("beta", 0.999),
               epsilon = call.real("epsilon", 0);
  const double norm = call.real("norm_coefficient", 0),
               post = call.real("norm_coefficient_post", 0), count = call.scalar(1, 0);
  const double rate =
      call.scalar(0, 0) *
      (count > 0 ? std::sqrt(1 - std::pow(beta, count)) / (1 - std::pow(alpha, count)) : 1);
  auto x = kind_of(call, 0, n), v = kind_of(call, 2, n), h = kind_of(call, 3, n);
  const auto g = kind_of(call, 1, n);
  for (size_t k = 0; k < n; ++k) {
    for (size_t e = 0; e < x[k].size(); ++e) {
      const double gradient = norm * x[k][e] + g[k][e];
      v[k][e] = alpha * v[k][e] + (1 - alpha) * gradient;
      h[k][e] = beta * h[k][e] + (1 - beta) * gradient * gradient;
      x[k][e] = (1 - post) * (x[k][e] - rate * v[k][e] / (std::sqrt(h[k][e]) + epsilon));
    }
  }
  give_all(call, n, x, outputs);
  give_all(call, n, v, outputs);
  give_all(call, n, h, outputs);
  return ok_status();
}

Status momentum(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  const size_t n = args.inputs.size() < 2 ? 0 : (args.inputs.size() - 2) / 3;
  CAMSHAFT_TRY(check_optimizer(call, 3, n));
  const double rate = call.scalar(0, 0), alpha = call.real("alpha", 0),
               norm = call.real("norm_coefficient", 0);
  const double beta =
      call.scalar(1, 0) > 0 ? call.real("beta", 0) : 1;  // the first step takes the whole gradient
  const bool nesterov = call.text("mode", "standard") == "nesterov";
  auto x = kind_of(call, 0, n), v = kind_of(call, 2, n);
  const auto g = kind_of(call, 1, n);
  for (size_t k = 0; k < n; ++k) {
    for (size_t e = 0; e < x[k].size(); ++e) {
      const double gradient = norm * x[k][e] + g[k][e];
      v[k][e] = alpha * v[k][e] + beta * gradient;
      x[k][e] -= rate * (nesterov ? gradient + alpha * v[k][e] : v[k][e]);
    }
  }
  give_all(call, n, x, outputs);
  give_all(call, n, v, outputs);
  return ok_status();
}

}  // namespace

std::span<const GenericRow> generic_random_operators() {
  static constexpr GenericRow kRows[] = {
      {"RandomUniform", {nullptr, appending<random_uniform>}},
      {"RandomUniformLike", {nullptr, appending<random_uniform>}},
      {"RandomNormal", {nullptr, appending<random_normal>}},
      {"RandomNormalLike", {nullptr, appending<random_normal>}},
      {"Bernoulli", {nullptr, appending<bernoulli>}},
      {"Multinomial", {nullptr, appending<multinomial>}},
      {"Dropout", {nullptr, appending<dropout>}},
      {"Adagrad", {nullptr, appending<adagrad>}},
      {"Adam", {nullptr, appending<adam>}},
      {"Momentum", {nullptr, appending<momentum>}},
  };
  return kRows;
}

}  // namespace camshaft::kernels::reference
