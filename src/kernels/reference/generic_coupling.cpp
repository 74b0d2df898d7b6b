// SPDX-License-Identifier: Apache-2.0
// PairwiseCoupling: probabilities of classes from those of every pair of them, as support vector
// machines give them. Input: r [rows, pairs], P(i | i or j) of the pairs i < j in order; output:
// [rows, classes]. T.-F. Wu, C.-J. Lin, R. Weng, "Probability Estimates for Multi-class
// Classification by Pairwise Coupling" (2004), the second method: p minimizes Σ (r_ji p_i - r_ij
// p_j)², found one coordinate after the other. Where to stop is part of the numbers: as LIBSVM
// does.
#include <cmath>

#include "kernels/reference/generic.h"

namespace camshaft::kernels::reference {
namespace {

constexpr double kLeast = 1e-7;  // of a pair's probability
constexpr int64_t kMostRounds = 100;

class Coupling {
 public:
  explicit Coupling(int64_t classes)
      : n_(classes), q_(static_cast<size_t>(n_ * n_)), qp_(static_cast<size_t>(n_)) {}

  // `pairs`: one row; `p`: classes numbers.
  void solve(const double* pairs, double* p) {
    set_matrix(pairs);
    std::fill(p, p + n_, 1.0 / static_cast<double>(n_));
    const double enough = 0.005 / static_cast<double>(n_);
    for (int64_t round = 0; round < std::max(kMostRounds, n_); ++round) {
      double whole = 0;
      for (int64_t t = 0; t < n_; ++t) {
        qp_[t] = 0;
        for (int64_t j = 0; j < n_; ++j) qp_[t] += q_[t * n_ + j] * p[j];
        whole += p[t] * qp_[t];
      }
      double error = 0;
      for (int64_t t = 0; t < n_; ++t) error = std::max(error, std::abs(qp_[t] - whole));
      if (error < enough) return;
      for (int64_t t = 0; t < n_; ++t) step(t, whole, p);
    }
  }

 private:
  void set_matrix(const double* pairs) {
    std::fill(q_.begin(), q_.end(), 0.0);
    for (int64_t i = 0; i < n_; ++i)
      for (int64_t j = i + 1; j < n_; ++j) {
        const double first = std::min(std::max(*pairs++, kLeast), 1 - kLeast), second = 1 - first;
        q_[i * n_ + i] += second * second;
        q_[j * n_ + j] += first * first;
        q_[i * n_ + j] = q_[j * n_ + i] = -first * second;
      }
  }

  void step(int64_t t, double& whole, double* p) {
    const double own = q_[t * n_ + t], change = (whole - qp_[t]) / own, scale = 1 / (1 + change);
    whole = (whole + change * (change * own + 2 * qp_[t])) * scale * scale;
    p[t] += change;
    for (int64_t j = 0; j < n_; ++j) {
      qp_[j] = (qp_[j] + change * q_[t * n_ + j]) * scale;
      p[j] *= scale;
    }
  }

  int64_t n_;
  std::vector<double> q_, qp_;
};

Status pairwise_coupling(const KernelArgs& args) {
  const Call call(args);
  const int64_t classes = call.integer("classes", 0), pairs = classes * (classes - 1) / 2;
  const Extents extents = call.extents(0);
  if (classes < 2 || extents.size() != 2 || extents[1] != pairs)
    return make_error(ErrorCode::kInvalidArgument, "PairwiseCoupling of {} classes", classes);
  const std::vector<double> r = call.doubles(0);
  std::vector<double> p(static_cast<size_t>(extents[0] * classes));
  Coupling coupling(classes);
  for (int64_t row = 0; row < extents[0]; ++row)
    coupling.solve(r.data() + row * pairs, p.data() + row * classes);
  store(args.outputs[0], p);
  return ok_status();
}

}  // namespace

std::span<const GenericRow> generic_coupling_operators() {
  static constexpr GenericRow kRows[] = {{"PairwiseCoupling", {pairwise_coupling, nullptr}}};
  return kRows;
}

}  // namespace camshaft::kernels::reference
