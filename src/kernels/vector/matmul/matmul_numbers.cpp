// SPDX-License-Identifier: Apache-2.0
// Matrix products of doubles and of integers, which wrap around: panels of B, a block of K at a
// time, copied next to each other, pass register tiles of rows of A, read where they lie. Sums
// are taken along K in order; those of earlier blocks wait in the output.
#include "kernels/nest.h"
#include "kernels/vector/counts.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::matmul_numbers {
namespace {

constexpr int kVectorBytes = 4 * kLanes;
template <class T>
using Vector [[gnu::vector_size(kVectorBytes)]] = T;

// Sums fill the registers that operands leave.
constexpr int kRows = kRegisters == 32 ? 8 : 4, kVectors = 3;
constexpr int64_t kBlock = 128;  // of K: 24 KB of a panel and the rows of a tile lie in L1
constexpr int64_t kChunk = 128;  // rows of A that a unit passes
template <class T>
constexpr int64_t kWidth = kVectorBytes* kVectors / static_cast<int64_t>(sizeof(T));

const ir::MatrixMultiplyAttrs& attrs_of(const ir::Layer& layer) {
  return *std::get_if<ir::MatrixMultiplyAttrs>(&layer.attrs);
}

// Strides of a matrix of rows and columns.
struct Steps {
  int64_t row, col;
};

struct Product {
  int64_t m, n, k;
  Steps y, a, b, c;
  bool has_c;
  double alpha;
  Nest items;  // of the batch; tensors y, a, b, c
  int64_t count, panels, chunks;
  double predicted_us;
  bool packs(int64_t cols, int64_t width) const { return m > kRows || b.col != 1 || cols < width; }
};

// --- tiles

// What a tile of up to kRows rows is made of: addresses of its first elements.
template <class T>
struct Tile {
  const T *a, *b, *c;
  T* y;
  int64_t b_row, k, cols;
  bool is_first, is_last;  // block of K
};

template <class T>
CAMSHAFT_INLINE Vector<T> load_vector(const T* p) {
  Vector<T> v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}

// Where sums come from and go to: rows of whole vectors; the output itself, or a copy of it.
template <class T>
struct Sums {
  T* first;
  int64_t row;
  bool is_copy, starts;
};

template <class T>
Sums<T> take_sums(const Product& p, const Tile<T>& t, int64_t width, int64_t rows, T* buffer) {
  const bool finishes = t.is_last && (p.has_c || p.alpha != 1);
  if (p.y.col == 1 && t.cols == width && !finishes) return {t.y, p.y.row, false, t.is_first};
  for (int64_t r = 0; !t.is_first && r < rows; ++r)
    for (int64_t c = 0; c < width; ++c)
      buffer[r * width + c] = c < t.cols ? t.y[r * p.y.row + c * p.y.col] : T(0);
  return {buffer, width, true, t.is_first};
}
// y = factor · sums + c, along a row of the output.
template <class T>
CAMSHAFT_INLINE void finish_row(const Product& p, const Tile<T>& t, const T* sums, const T* c,
                                T* y) {
  const auto step = [&](int64_t k, T addend) {
    if constexpr (std::is_same_v<T, double>)
      return sums[k] * p.alpha + addend;
    else
      return sums[k] + addend;
  };
  if (c == nullptr)
    for (int64_t k = 0; k < t.cols; ++k) y[k * p.y.col] = step(k, T(0));
  else if (p.y.col == 1 && p.c.col == 1)
    for (int64_t k = 0; k < t.cols; ++k) y[k] = step(k, c[k]);
  else
    for (int64_t k = 0; k < t.cols; ++k) y[k * p.y.col] = step(k, c[k * p.c.col]);
}

template <class T>
void give_sums(const Product& p, const Tile<T>& t, const Sums<T>& sums, int64_t rows) {
  if (!sums.is_copy) return;
  for (int64_t r = 0; r < rows; ++r) {
    const T* row = sums.first + r * sums.row;
    T* y = t.y + r * p.y.row;
    if (t.is_last)
      finish_row(p, t, row, p.has_c ? t.c + r * p.c.row : nullptr, y);
    else
      for (int64_t c = 0; c < t.cols; ++c) y[c * p.y.col] = row[c];
  }
}

template <class T, int kCount, int kVecs>
void add_products(const Product& p, const Tile<T>& t, const Sums<T>& rows) {
  constexpr int kStep = kVectorBytes / static_cast<int>(sizeof(T));
  Vector<T> sums[kCount][kVecs];
#pragma GCC unroll 8
  for (int r = 0; r < kCount; ++r)
#pragma GCC unroll 3
    for (int v = 0; v < kVecs; ++v)
      sums[r][v] = rows.starts ? Vector<T>{} : load_vector(rows.first + r * rows.row + v * kStep);
  const T *a = t.a, *b = t.b;
  for (int64_t k = 0; k < t.k; ++k, a += p.a.col, b += t.b_row) {
    Vector<T> right[kVecs];
#pragma GCC unroll 3
    for (int v = 0; v < kVecs; ++v) right[v] = load_vector(b + v * kStep);
#pragma GCC unroll 8
    for (int r = 0; r < kCount; ++r) {
      const Vector<T> left = a[r * p.a.row] - Vector<T>{};
#pragma GCC unroll 3
      for (int v = 0; v < kVecs; ++v) sums[r][v] += left * right[v];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kCount; ++r)
#pragma GCC unroll 3
    for (int v = 0; v < kVecs; ++v)
      __builtin_memcpy(rows.first + r * rows.row + v * kStep, &sums[r][v], sizeof(Vector<T>));
}

template <class T>
using AddProducts = void (*)(const Product&, const Tile<T>&, const Sums<T>&);

template <class T, int kVecs>
AddProducts<T> products_of(int64_t rows) {
  constexpr AddProducts<T> kAdd[] = {
      add_products<T, 1, kVecs>,         add_products<T, 2, kVecs>,
      add_products<T, 3, kVecs>,         add_products<T, 4, kVecs>,
      add_products<T, kRows - 3, kVecs>, add_products<T, kRows - 2, kVecs>,
      add_products<T, kRows - 1, kVecs>, add_products<T, kRows, kVecs>};
  return kAdd[rows - 1];
}
// Of the last panel no more vectors than it has columns for.
template <class T>
AddProducts<T> products_of(int64_t rows, int64_t vectors) {
  return vectors == 1   ? products_of<T, 1>(rows)
         : vectors == 2 ? products_of<T, 2>(rows)
                        : products_of<T, kVectors>(rows);
}

template <class T>
void run_tile(const Product& p, const Tile<T>& t, int64_t rows, int64_t vectors) {
  alignas(64) T buffer[kRows * kWidth<T>];
  const Sums<T> sums = take_sums(p, t, vectors * (kWidth<T> / kVectors), rows, buffer);
  products_of<T>(rows, vectors)(p, t, sums);
  give_sums(p, t, sums, rows);
}

// --- units: a panel of B and a chunk of rows of A

template <class T>
void pack_panel(const T* b, Steps steps, int64_t rows, int64_t cols, int64_t width, T* packed) {
  for (int64_t k = 0; k < rows; ++k, b += steps.row, packed += width) {
    if (steps.col == 1)
      for (int64_t c = 0; c < cols; ++c) packed[c] = b[c];
    else
      for (int64_t c = 0; c < cols; ++c) packed[c] = b[c * steps.col];
    for (int64_t c = cols; c < width; ++c) packed[c] = 0;
  }
}

// Of an item of the batch in tensor t.
int64_t item_offset(const Nest& items, int t, int64_t item) {
  int64_t offset = 0;
  for (int d = items.rank - 1; d >= 0; --d) {
    offset += item % items.extents[d] * items.strides[t][d];
    item /= items.extents[d];
  }
  return offset;
}

template <class T>
void run_unit(const Product& p, const KernelCall& call, int64_t unit, T* packed) {
  const int64_t row = unit % p.chunks * kChunk, rows = smaller(kChunk, p.m - row);
  const int64_t col = unit / p.chunks % p.panels * kWidth<T>, cols = smaller(kWidth<T>, p.n - col);
  const int64_t item = unit / p.chunks / p.panels;
  const T* a = call.input<const T>(0) + item_offset(p.items, 1, item) + row * p.a.row;
  const T* b = call.input<const T>(1) + item_offset(p.items, 2, item) + col * p.b.col;
  const T* c = p.has_c ? call.input<const T>(2) + item_offset(p.items, 3, item) + row * p.c.row +
                             col * p.c.col
                       : nullptr;
  T* y = call.output<T>(0) + item_offset(p.items, 0, item) + row * p.y.row + col * p.y.col;
  constexpr int64_t kStep = kWidth<T> / kVectors;
  const int64_t vectors = ceil_div(cols, kStep), width = vectors * kStep;
  const bool packs = p.packs(cols, width);
  for (int64_t k = 0; k < p.k; k += kBlock) {
    const int64_t depth = smaller(kBlock, p.k - k);
    if (packs) pack_panel(b + k * p.b.row, p.b, depth, cols, width, packed);
    Tile<T> tile{nullptr,
                 packs ? packed : b + k * p.b.row,
                 nullptr,
                 nullptr,
                 packs ? width : p.b.row,
                 depth,
                 cols,
                 k == 0,
                 k + depth == p.k};
    for (int64_t r = 0; r < rows; r += kRows) {
      tile.a = a + r * p.a.row + k * p.a.col;
      tile.c = p.has_c ? c + r * p.c.row : nullptr;
      tile.y = y + r * p.y.row;
      run_tile(p, tile, smaller(kRows, rows - r), vectors);
    }
  }
}

template <class T>
void run(Product& p, const KernelCall& call) {
  split(call.pool, p.count * p.panels * p.chunks, p.predicted_us,
        [&](int worker, int64_t first, int64_t last) {
          T* packed = reinterpret_cast<T*>(call.workspace) + worker * kBlock * kWidth<T>;
          for (int64_t unit = first; unit < last; ++unit) run_unit<T>(p, call, unit, packed);
        });
}

// --- preparation

void insert_unit(TensorView& view, int at) {
  for (int d = view.rank; d > at; --d) {
    view.extents[d] = view.extents[d - 1];
    view.strides[d] = view.strides[d - 1];
  }
  view.extents[at] = 1, view.strides[at] = 0;
  ++view.rank;
}

// The strides of the last two dimensions, which are taken off.
Steps take_steps(TensorView& view, bool transposed) {
  const int rows = view.rank - (transposed ? 1 : 2), cols = view.rank - (transposed ? 2 : 1);
  const Steps steps{view.strides[rows], view.strides[cols]};
  view.rank -= 2;
  return steps;
}

// The addend, broadcast to y.
Steps take_addend(TensorView c, const TensorView& y, TensorView& items) {
  while (c.rank < y.rank) insert_unit(c, 0);
  for (int d = 0; d < c.rank; ++d)
    if (c.extents[d] == 1) c.strides[d] = 0;
  const Steps steps = take_steps(c, false);
  items = c;
  return steps;
}

Product plan_product(const KernelArgs& args) {
  const ir::MatrixMultiplyAttrs& attrs = attrs_of(*args.layer);
  TensorView a = args.inputs[0], b = args.inputs[1], y = args.outputs[0], c;
  const bool a_is_vector = a.rank == 1, b_is_vector = b.rank == 1;
  if (a_is_vector) insert_unit(a, 0), insert_unit(y, y.rank - (b_is_vector ? 0 : 1));
  if (b_is_vector) insert_unit(b, 1), insert_unit(y, y.rank);
  Product p{};
  p.m = y.extents[y.rank - 2], p.n = y.extents[y.rank - 1];
  const bool transposes_a = attrs.transpose_a && !a_is_vector;
  p.k = a.extents[a.rank - (transposes_a ? 2 : 1)];
  p.alpha = attrs.alpha;
  p.has_c = args.inputs.size() > 2 && args.inputs[2].present();
  if (p.has_c) p.c = take_addend(args.inputs[2], y, c);
  p.a = take_steps(a, transposes_a);
  p.b = take_steps(b, attrs.transpose_b && !b_is_vector);
  p.y = take_steps(y, false);
  p.items = make_nest(y);
  add_tensor(p.items, a);
  add_tensor(p.items, b);
  if (p.has_c) add_tensor(p.items, c);
  p.count = count_of(y);
  p.chunks = ceil_div(p.m, kChunk);
  return p;
}

template <class T>
void keep_product(Product p, const KernelArgs& args, PreparedKernel& kernel) {
  p.panels = ceil_div(p.n, kWidth<T>);
  p.predicted_us = static_cast<double>(p.count) * static_cast<double>(p.m * p.n) *
                   static_cast<double>(p.k) / (kVectorBytes / sizeof(T)) / 4000;
  keep_state<run<T>>(kernel, p);
  kernel.workspace_bytes =
      static_cast<size_t>(threads_of(args)) * static_cast<size_t>(kBlock * kWidth<T>) * sizeof(T);
}

void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const Product p = plan_product(args);
  const DataType type = args.outputs[0].type;
  if (type == DataType::kDouble)
    keep_product<double>(p, args, kernel);
  else if (bytes_of(type) == 8)
    keep_product<uint64_t>(p, args, kernel);
  else
    keep_product<uint32_t>(p, args, kernel);
}

bool is_taken(DataType type) {
  return type == DataType::kDouble || type == DataType::kInt64 || type == DataType::kInt32 ||
         type == DataType::kUInt64 || type == DataType::kUInt32;
}

std::string refusal(const Problem& p) {
  const ir::MatrixMultiplyAttrs& attrs = attrs_of(*p.layer);
  const DataType type = p.outputs[0].type;
  if (!is_taken(type)) return "neither double nor an integer of 32 or 64 bits";
  for (size_t k = 0; k < p.inputs.size(); ++k)
    if (p.inputs[k].present && p.inputs[k].type != type) return "types differ";
  if (!attrs.epilogue.empty()) return "an epilogue";
  if (attrs.a_zero_point != 0 || attrs.b_zero_point != 0) return "zero points";
  if (type != DataType::kDouble && attrs.alpha != 1) return "a factor";
  const ir::Extents &a = p.inputs[0].extents, &b = p.inputs[1].extents;
  if (a.empty() || b.empty()) return "a scalar";
  const bool has_vector = a.size() == 1 || b.size() == 1;
  if (has_vector && p.inputs.size() > 2 && p.inputs[2].present) return "a vector and an addend";
  if (count_of(p.inputs[0]) == 0 || count_of(p.inputs[1]) == 0) return "empty";
  return "";
}

double cost_us(const Problem& p) {
  const ir::Extents& a = p.inputs[0].extents;
  const bool takes_first = attrs_of(*p.layer).transpose_a && a.size() > 1;
  const int64_t k = a[a.size() - (takes_first ? 2 : 1)];
  const double us = static_cast<double>(count_of(p.outputs[0])) * static_cast<double>(k) *
                    static_cast<double>(bytes_of(p.outputs[0].type)) / kVectorBytes / 4000;
  return 0.2 + (us > kThreadedUs ? us / p.threads : us);
}

constexpr Tactic kTactics[] = {
    {"matmul_numbers", ir::LayerKind::kMatrixMultiply, kIsa, FormatRule::kLinear, 1, refusal,
     cost_us, CAMSHAFT_NOTHING_PACKED, prepare},
};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::matmul_numbers
