// SPDX-License-Identifier: Apache-2.0
// LabelEncoder and OneHotEncoder of ai.onnx.ml: a table of the keys, made once.
#include <atomic>

#include "kernels/index_error.h"
#include "kernels/nest.h"
#include "kernels/vector/encoding/key_table.h"
#include "kernels/vector/generic.h"
#include "kernels/vector/movement/copy_bytes.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::label_encoder {
namespace {

bool is_key(DataType type) {
  return type == DataType::kInt64 || type == DataType::kInt32 || type == DataType::kFloat ||
         type == DataType::kDouble;
}

// Calls body(T()) for the type of keys.
template <class Body>
void with_key(DataType type, const Body& body) {
  if (type == DataType::kInt64) return body(int64_t());
  if (type == DataType::kInt32) return body(int32_t());
  if (type == DataType::kDouble) return body(double());
  body(0.0F);
}

// --- labels

struct Labels {
  Nest nest;  // the output, the input
  KeyTable table;
  int64_t count;  // of keys
  int64_t key_step, value_step;
  bool is_ready;  // the table is filled: the keys' bytes are there only when running
  double predicted_us;
};

template <class From, class To>
void fill_labels(Labels& s, const KernelCall& call) {
  const From* keys = call.input<const From>(1);
  const To* values = call.input<const To>(2);
  s.table.fill(
      s.count, *call.input<const To>(3), [&](int64_t k) { return key_of(keys[k * s.key_step]); },
      [&](int64_t k) { return values[k * s.value_step]; });
  s.is_ready = true;
}

template <class From, class To>
void run_labels(Labels& s, const KernelCall& call) {
  if (!s.is_ready) fill_labels<From, To>(s, call);
  const From* x = call.input<const From>(0);
  To* y = call.output<To>(0);
  const KeyTable table = s.table;
  const auto each_row = [&](const int64_t* offsets, int64_t rows, int64_t cols, auto look_up) {
    const int64_t step = s.nest.col_stride(1);
    for (int64_t row = 0; row < rows; ++row) {
      const From* from = x + offsets[1] + row * s.nest.row_stride(1);
      To* to = y + offsets[0] + row * s.nest.row_stride(0);
      for (int64_t k = 0; k < cols; ++k) to[k] = static_cast<To>(look_up(key_of(from[k * step])));
    }
  };
  for_tiles(s.nest, call.pool, s.predicted_us,
            [&](const int64_t* offsets, int64_t rows, int64_t cols) {
              if (table.is_by_position())
                each_row(offsets, rows, cols, [&](int64_t key) { return table.at_position(key); });
              else
                each_row(offsets, rows, cols, [&](int64_t key) { return table.hashed(key); });
            });
}

std::string refuse_labels(const Problem& p) {
  if (!is_operator(p, "LabelEncoder")) return "another operator";
  if (p.inputs.size() < 4) return "too few inputs";
  for (size_t k = 1; k < 4; ++k)
    if (p.inputs[k].constant == nullptr) return "the table is no constant";
  if (!is_key(p.inputs[0].type) || p.inputs[1].type != p.inputs[0].type)
    return "keys of another type than x";
  const DataType type = p.outputs[0].type;
  if (p.inputs[2].type != type || p.inputs[3].type != type) return "types differ";
  if (type == DataType::kInt4 || type == DataType::kUInt4) return "4-bit elements";
  if (p.inputs[1].extents.size() != 1 || p.inputs[1].extents != p.inputs[2].extents ||
      count_of(p.inputs[3]) != 1)
    return "not one value per key";
  return "";
}

void prepare_labels(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const TensorView &y = args.outputs[0], &keys = args.inputs[1], &values = args.inputs[2];
  Labels s{make_nest(y),
           KeyTable::make(kernel, keys.extents[0]),
           keys.extents[0],
           keys.strides[0],
           values.strides[0],
           false,
           static_cast<double>(count_of(y)) / 500};
  add_tensor(s.nest, args.inputs[0]);
  collapse(s.nest);
  with_key(keys.type, [&](auto from) {
    with_element(bytes_of(y.type),
                 [&](auto to) { keep_state<run_labels<decltype(from), decltype(to)>>(kernel, s); });
  });
}

double labels_us(const Problem& p) {
  const double us = static_cast<double>(count_of(p.outputs[0])) / 500;
  return 0.2 + (us > kThreadedUs ? us / p.threads : us);
}

// --- one-hot rows

constexpr uint64_t kUnknown = ~uint64_t{0};

struct OneHot {
  Nest nest;  // the output without its last dimension, the input
  TensorView x;
  KeyTable table;
  int64_t categories, step;  // of the output's last dimension
  bool may_be_unknown;
  const ir::Ints* list;
  double predicted_us;
};

// Rows of zeros; those that lie one after another all at once.
void clear_rows(const OneHot& s, float* y, int64_t rows) {
  const int64_t row_step = s.nest.row_stride(0);
  if (s.step == 1 && row_step == s.categories) {
    __builtin_memset(y, 0, static_cast<size_t>(rows * s.categories) * sizeof(float));
    return;
  }
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t k = 0; k < s.categories; ++k) y[row * row_step + k * s.step] = 0;
}

// Of `rows` elements of x; false: one of them is no category.
template <class From>
bool encode_rows(const OneHot& s, const From* x, float* y, int64_t rows) {
  bool are_known = true;
  for (int64_t row = 0; row < rows; ++row) {
    const uint64_t position = s.table[static_cast<int64_t>(x[row * s.nest.row_stride(1)])];
    if (position != kUnknown)
      y[row * s.nest.row_stride(0) + static_cast<int64_t>(position) * s.step] = 1;
    else
      are_known = false;
  }
  return are_known;
}

template <class From>
Status run_one_hot(OneHot& s, const KernelCall& call) {
  const From* x = call.input<const From>(0);
  float* y = call.output<float>(0);
  const int64_t together = at_least_one(4096 / s.categories);  // what is cleared is still in L1
  std::atomic<bool> fails = false;
  for_tiles(s.nest, call.pool, s.predicted_us, [&](const int64_t* offsets, int64_t rows, int64_t) {
    for (int64_t row = 0; row < rows; row += together) {
      const int64_t count = smaller(together, rows - row);
      float* to = y + offsets[0] + row * s.nest.row_stride(0);
      clear_rows(s, to, count);
      if (!encode_rows(s, x + offsets[1] + row * s.nest.row_stride(1), to, count))
        fails.store(true, std::memory_order_relaxed);
    }
  });
  if (!fails || s.may_be_unknown) return Status();
  s.x.data = call.inputs[0];
  return category_error(s.x, *s.list);
}

const ir::Ints& categories_of(const ir::Layer& layer) {
  return ir::integers_attribute(generic_attrs(layer), "cats_int64s");
}

std::string refuse_one_hot(const Problem& p) {
  if (!is_operator(p, "OneHotEncoder")) return "another operator";
  if (!is_key(p.inputs[0].type)) return "x is of another type";
  if (categories_of(*p.layer).empty()) return "no categories";
  if (p.outputs[0].type != DataType::kFloat ||
      p.outputs[0].extents.size() != p.inputs[0].extents.size() + 1)
    return "the output";
  return "";
}

void prepare_one_hot(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const TensorView& y = args.outputs[0];
  const ir::Ints& list = categories_of(*args.layer);
  const auto count = static_cast<int64_t>(list.size());
  TensorView rows = y;
  --rows.rank;
  OneHot s{make_nest(rows),
           args.inputs[0],
           KeyTable::make(kernel, count),
           count,
           y.strides[rows.rank],
           generic_integer(*args.layer, "zeros", 1) != 0,
           &list,
           static_cast<double>(count_of(y)) / 10000};
  s.table.fill(
      count, kUnknown, [&](int64_t k) { return list[static_cast<size_t>(k)]; },
      [](int64_t k) { return static_cast<uint64_t>(k); });
  add_tensor(s.nest, args.inputs[0]);
  collapse(s.nest);
  if (s.nest.cols() != 1) append_unit_dimension(s.nest);  // rows of one category
  with_key(args.inputs[0].type,
           [&](auto from) { keep_checked_state<run_one_hot<decltype(from)>>(kernel, s); });
}

constexpr Tactic kTactics[] = {
    {"label_encoder", ir::LayerKind::kGeneric, kIsa, FormatRule::kSame, 1, refuse_labels, labels_us,
     CAMSHAFT_NOTHING_PACKED, prepare_labels},
    {"one_hot_encoder", ir::LayerKind::kGeneric, kIsa, FormatRule::kLinear, 1, refuse_one_hot,
     traffic_us, CAMSHAFT_NOTHING_PACKED, prepare_one_hot},
};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::label_encoder
