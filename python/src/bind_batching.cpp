// SPDX-License-Identifier: Apache-2.0
// The server's policy of batches for servers written in Python.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "batching/arrivals.h"
#include "batching/batch_policy.h"
#include "bindings.h"

namespace nb = nanobind;

namespace camshaft::python {
namespace {

// Times are microseconds of any one clock. Not thread safe: an event loop asks.
class BatchPlanner {
 public:
  BatchPlanner(int64_t max_batch, double goal_us, double max_delay_us)
      : times_(batching::batch_sizes(max_batch)), bounds_{goal_us, max_delay_us} {}

  std::vector<int64_t> sizes() const { return {times_.sizes().begin(), times_.sizes().end()}; }
  int64_t limit() const { return batch_limit(times_, bounds_); }
  int64_t size_for(int64_t rows) const { return times_.size_for(rows); }
  void measured(int64_t size, double us) { times_.measured(size, us); }
  void seen(int64_t size, double us) { times_.seen(size, us); }
  double time_of(int64_t size) const { return times_.of(size); }
  void came(double at_us, int64_t rows) { arrivals_.came(at_us, rows); }

  // Requests to run now (0: wait), their rows, the size to run them at, microseconds to wait, why.
  std::tuple<size_t, int64_t, int64_t, double, std::string> choose(std::vector<int64_t> rows_up_to,
                                                                   bool is_all, double oldest_us,
                                                                   double now_us) const {
    batching::WaitingRows waiting;
    waiting.rows_up_to = std::move(rows_up_to);
    waiting.is_all = is_all;
    waiting.oldest_us = oldest_us;
    waiting.newest_us = arrivals_.since_newest_us(now_us);
    waiting.rows_per_us = arrivals_.rows_per_us(now_us);
    if (waiting.rows_up_to.empty()) throw nb::value_error("nothing waits");
    const batching::BatchChoice choice = choose_batch(times_, bounds_, limit(), waiting);
    return {choice.requests, choice.rows, choice.size, choice.wait_us, choice.why};
  }

 private:
  batching::BatchTimes times_;
  batching::LatencyBounds bounds_;
  batching::Arrivals arrivals_;
};

}  // namespace

void bind_batching(nb::module_& module) {
  nb::class_<BatchPlanner>(module, "BatchPlanner")
      .def(nb::init<int64_t, double, double>(), nb::arg("max_batch"), nb::arg("goal_us"),
           nb::arg("max_delay_us"))
      .def_prop_ro("sizes", &BatchPlanner::sizes)
      .def_prop_ro("limit", &BatchPlanner::limit)
      .def("size_for", &BatchPlanner::size_for, nb::arg("rows"))
      .def("measured", &BatchPlanner::measured, nb::arg("size"), nb::arg("us"))
      .def("seen", &BatchPlanner::seen, nb::arg("size"), nb::arg("us"))
      .def("time_of", &BatchPlanner::time_of, nb::arg("size"))
      .def("came", &BatchPlanner::came, nb::arg("at_us"), nb::arg("rows"))
      .def("choose", &BatchPlanner::choose, nb::arg("rows_up_to"), nb::arg("is_all"),
           nb::arg("oldest_us"), nb::arg("now_us"));
}

}  // namespace camshaft::python
