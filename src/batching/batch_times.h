// SPDX-License-Identifier: Apache-2.0
// What a batch of each size takes: measured when the model is loaded, held to what is seen since.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace camshaft::batching {

// The sizes a model runs at: all up to 12, then in steps of a third and a half. Rows between two of
// them are padded to the larger. At most 14, for a context keeps the plans of 16 shapes.
std::vector<int64_t> batch_sizes(int64_t max_batch);

class BatchTimes {
 public:
  BatchTimes() = default;
  explicit BatchTimes(std::vector<int64_t> sizes);

  std::span<const int64_t> sizes() const { return sizes_; }
  int64_t largest() const { return sizes_.empty() ? 1 : sizes_.back(); }
  // The smallest size that holds `rows`; the largest where none does.
  int64_t size_for(int64_t rows) const;

  void measured(int64_t size, double us);
  // A batch that was served. What disturbs one disturbs all: a factor follows for all sizes, and
  // only slowly one for each, so that their order is not that of chance.
  void seen(int64_t size, double us);
  bool is_measured(int64_t size) const;
  // Microseconds; between measured sizes a line, beyond them in proportion. 0: nothing was
  // measured.
  double of(int64_t size) const;
  double at_load(int64_t size) const;  // as measured when the model was loaded; 0: it was not

 private:
  size_t index_of(int64_t size) const;

  std::vector<int64_t> sizes_;
  std::vector<double> load_us_;  // 0: not measured
  std::vector<double> own_;      // by size, near 1
  double all_ = 1;
};

}  // namespace camshaft::batching
