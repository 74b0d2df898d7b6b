// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/sparse/gemm_sparse.h"

#include <cstring>

#include "kernels/vector/counts.h"
#include "kernels/vector/gemm/gemm_byte_kernels.h"

#if defined(CAMSHAFT_HAS_BYTE_PAIRS)
#include "kernels/vector/gemm/gemm_chain_sort.h"
#endif

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

constexpr int64_t kKinds = 4;  // chains of 4, of 2, single steps, 16-bit products
// Groups that are not full: a pair, and the last single and 16-bit steps.
constexpr int64_t kPartialGroups = kChainsSteps ? 3 : 1;

int64_t taps_of(const ConvShape& shape) {
  return ceil_div(shape.group_ic(), kSparseStep);
}

// The eight weights of a step of one output channel.
struct StepReader {
  const ConvShape& shape;
  const Filter<int8_t>& filter;
  int64_t taps;

  void read(const int8_t* channel, int64_t span, int64_t step, int8_t* weights) const {
    const int64_t kw = step / taps, first = step % taps * kSparseStep;
    const int8_t* from = channel + span * filter.h + kw * filter.w + first * filter.c;
    const int64_t count = smaller(kSparseStep, shape.group_ic() - first);
    for (int64_t c = 0; c < kSparseStep; ++c)
      weights[c] = c < count ? from[c * filter.c] : int8_t{0};
  }
};

// A weight and which of eight bytes it is for.
struct Placed {
  int8_t weight;
  uint8_t position;
};

// What weights that share a 16-bit lane can add up to, of one sign.
struct LaneLoad {
  int above = 0, below = 0;
  void add(int weight) { (weight > 0 ? above : below) += weight > 0 ? weight : -weight; }
  int largest() const { return above > below ? above : below; }
};
int load_of(const Placed* four, const Placed* four_more) {
  int largest = 0;
  for (int lane = 0; lane < 2; ++lane) {
    LaneLoad load;
    for (int k = 2 * lane; k < 2 * lane + 2; ++k) {
      load.add(four[k].weight);
      if (four_more) load.add(four_more[k].weight);
    }
    largest = load.largest() > largest ? load.largest() : largest;
  }
  return largest;
}

void exchange(Placed& a, Placed& b) {
  const Placed kept = a;
  a = b;
  b = kept;
}

// The ways to lay out four weights that differ in what their two 16-bit lanes hold; of two bits,
// bytes 0 and 2 are for the first half. From `ways_of` on: the same, lanes exchanged.
int ways_of(SparseIndex index) {
  return index == SparseIndex::kBits ? 2 : 3;
}
void lay_out(Placed* four, int way, int ways) {
  if (way % ways == 1) exchange(four[0], four[2]);
  if (way % ways == 2) exchange(four[1], four[2]);
  if (way < ways) return;
  exchange(four[0], four[2]);
  exchange(four[1], four[3]);
}

// Makes the lanes' sums small: most steps with weights of either sign fit 16 bits then, whatever
// the codes are.
void balance(Placed* four, SparseIndex index) {
  Placed best[kLaneBytes], tried[kLaneBytes];
  const int ways = ways_of(index);
  for (int way = 0; way < ways; ++way) {
    std::memcpy(tried, four, sizeof tried);
    lay_out(tried, way, ways);
    if (way == 0 || load_of(tried, nullptr) < load_of(best, nullptr))
      std::memcpy(best, tried, sizeof best);
  }
  std::memcpy(four, best, sizeof best);
}

// The same of both steps of a unit, added up, if that makes them fit together.
void balance_unit(Placed* first, Placed* second, SparseIndex index, int most) {
  const int ways = ways_of(index);
  Placed best[2 * kLaneBytes], tried[2 * kLaneBytes];
  int least = most + 1;
  for (int a = 0; a < ways; ++a)
    for (int b = 0; b < 2 * ways; ++b) {
      std::memcpy(tried, first, kLaneBytes * sizeof(Placed));
      std::memcpy(tried + kLaneBytes, second, kLaneBytes * sizeof(Placed));
      lay_out(tried, a, ways);
      lay_out(tried + kLaneBytes, b, ways);
      const int load = load_of(tried, tried + kLaneBytes);
      if (load >= least) continue;
      least = load;
      std::memcpy(best, tried, sizeof best);
    }
  if (least > most) return;
  std::memcpy(first, best, kLaneBytes * sizeof(Placed));
  std::memcpy(second, best + kLaneBytes, kLaneBytes * sizeof(Placed));
}

// Four of eight weights and their positions; false: there are more, or the halves hold more than
// two and positions are two bits.
bool choose_four(const int8_t* eight, SparseIndex index, Placed* four) {
  const int parts = index == SparseIndex::kBits ? 2 : 1;
  const int width = static_cast<int>(kSparseStep) / parts, most = 4 / parts;
  for (int part = 0; part < parts; ++part) {
    int kept = 0;
    for (int k = part * width; k < (part + 1) * width; ++k) {
      if (eight[k] == 0) continue;
      if (kept == most) return false;
      four[part + kept++ * parts] = {eight[k], static_cast<uint8_t>(k)};
    }
    for (; kept < most; ++kept) four[part + kept * parts] = {0, static_cast<uint8_t>(part * width)};
  }
  balance(four, index);
  return true;
}

// The steps of a span in order; -1: one of zeros.
struct GroupOrder {
  int32_t* steps;  // [groups * kSparseGroup]
  int64_t count = 0;
  void add(int32_t step) { steps[count++] = step; }
  void fill() {
    while (count % kSparseGroup != 0) add(-1);
  }
};

#if defined(CAMSHAFT_HAS_BYTE_PAIRS)
// Kinds of whole groups: an odd pair and a lone single step make chains of four with zeros.
void order_steps(const int32_t* sorted, const int32_t* last, int32_t* ends, GroupOrder& order) {
  const int64_t pairs = last[1] - last[0], singles = last[2] - last[1];
  const int64_t odd_pair = pairs % kSparseGroup, lone = singles % kSparseGroup == 1 ? 1 : 0;
  const auto add = [&](int64_t first, int64_t end, int kind) {
    for (int64_t k = first; k < end; ++k) order.add(sorted[k]);
    order.fill();
    ends[kind] = static_cast<int32_t>(order.count / kSparseGroup);
  };
  add(0, last[0], 0);
  add(last[1] - odd_pair, last[1], 0);
  add(last[2] - lone, last[2], 0);
  add(last[0], last[1] - odd_pair, 1);
  add(last[1], last[2] - lone, 2);
  add(last[2], last[3], 3);
}
void order_units(const int32_t* sorted, const int32_t* last, int32_t* ends, GroupOrder& order) {
  int64_t k = 0;
  for (int kind = 0; kind < kKinds; ++kind) {
    for (; k < last[kind]; ++k) {
      order.add(2 * sorted[k]);
      order.add(2 * sorted[k] + 1);
    }
    order.fill();
    ends[kind] = static_cast<int32_t>(order.count / kSparseGroup);
  }
}
void order_span(const int8_t* weights, int64_t steps, bool in_pairs, ChainSorter& sorter,
                int32_t* ends, GroupOrder& order) {
  int32_t* sorted = new int32_t[static_cast<size_t>(steps)];
  int32_t last[kKinds];
  sorter.sort(weights, last, sorted);
  (in_pairs ? order_units : order_steps)(sorted, last, ends, order);
  delete[] sorted;
}
#else
void order_plainly(int64_t steps, int32_t* ends, GroupOrder& order) {
  for (int64_t k = 0; k < steps; ++k) order.add(static_cast<int32_t>(k));
  order.fill();
  for (int64_t kind = 0; kind < kKinds; ++kind)
    ends[kind] = static_cast<int32_t>(order.count / kSparseGroup);
}
#endif

#if defined(CAMSHAFT_HAS_BYTE_PAIRS)
// Of packed groups, in tenths of a cycle for a row and vector (Zen 4, loops alone): pairs save
// loads, but fewer of them are proved.
int64_t panel_cost(const std::byte* panel, const Spans& spans) {
  static constexpr int64_t kCosts[2][kKinds] = {{52, 55, 61, 110}, {47, 51, 59, 110}};
  const SparseHeader& header = *reinterpret_cast<const SparseHeader*>(panel);
  const int32_t* ends = reinterpret_cast<const int32_t*>(panel + sizeof(SparseHeader));
  int64_t cost = 0;
  for (int64_t span = 0; span < spans.count; ++span, ends += kKinds)
    for (int kind = 0; kind < kKinds; ++kind)
      cost += kCosts[header.in_pairs][kind] * (ends[kind] - (kind == 0 ? 0 : ends[kind - 1]));
  return cost;
}
#endif

// One panel in the making: its steps as [steps][width][4], then their place in it.
class PanelPacker {
 public:
  PanelPacker(const Spans& spans, int64_t width, SparseIndex index, int64_t x_maximum)
      : spans_(spans),
        layout_(spans),
        width_(width),
        x_maximum_(at_least_one(x_maximum)),
        index_(index),
        row_bytes_(width * kLaneBytes),
        weights_(new int8_t[static_cast<size_t>(spans.steps * row_bytes_)]),
        positions_(new uint8_t[static_cast<size_t>(spans.steps * row_bytes_)]),
        order_(new int32_t[static_cast<size_t>(layout_.groups * kSparseGroup)]) {}
  PanelPacker(const PanelPacker&) = delete;
  PanelPacker& operator=(const PanelPacker&) = delete;
  ~PanelPacker() {
    delete[] weights_;
    delete[] positions_;
    delete[] order_;
  }

  void pack(const StepReader& reader, const int8_t* channels, int64_t cols, std::byte* panel) {
    const auto pack_as = [&](bool in_pairs) {
      in_pairs_ = in_pairs;
      pack_spans(reader, channels, cols, panel);
    };
#if defined(CAMSHAFT_HAS_BYTE_PAIRS)
    if (!uses(Feature::kVnni) && reader.taps % 2 == 0) {
      pack_as(true);
      const int64_t in_pairs = panel_cost(panel, spans_);
      if (in_pairs <= most_cost_of_pairs()) return;
      pack_as(false);
      if (panel_cost(panel, spans_) > in_pairs) pack_as(true);
      return;
    }
#endif
    pack_as(false);
  }

 private:
#if defined(CAMSHAFT_HAS_BYTE_PAIRS)
  // Steps on their own cost no less, all in chains of four.
  int64_t most_cost_of_pairs() const {
    return 52 * spans_.count * (spans_.steps / kSparseGroup);
  }
#endif

  void pack_spans(const StepReader& reader, const int8_t* channels, int64_t cols,
                  std::byte* panel) {
    const auto [groups, order_at, groups_at] = layout_;
    const int64_t span_bytes = groups * sparse_group_rows(index_) * row_bytes_;
    std::memset(panel, 0, static_cast<size_t>(groups_at + spans_.count * span_bytes));
    const SparseHeader header = {index_ == SparseIndex::kBits, static_cast<int32_t>(groups),
                                 in_pairs_, 0};
    std::memcpy(panel, &header, sizeof header);
    int32_t* ends = reinterpret_cast<int32_t*>(panel + sizeof header);
#if defined(CAMSHAFT_HAS_BYTE_PAIRS)
    ChainSorter sorter(spans_.steps, width_, x_maximum_, in_pairs_ ? 2 : 1);
#endif
    for (int64_t span = 0; span < spans_.count; ++span, ends += kKinds) {
      read_span(reader, channels, cols, span);
      GroupOrder order{order_};
#if defined(CAMSHAFT_HAS_BYTE_PAIRS)
      order_span(weights_, spans_.steps, in_pairs_, sorter, ends, order);
#else
      order_plainly(spans_.steps, ends, order);
#endif
      int32_t* stored = reinterpret_cast<int32_t*>(panel + order_at) + span * groups * kSparseGroup;
      for (int64_t k = 0; k < order.count; ++k) {
        stored[k] = order_[k] < 0 ? 0 : order_[k];
        if (order_[k] >= 0)
          place_step(order_[k], k % kSparseGroup,
                     panel + groups_at + span * span_bytes +
                         k / kSparseGroup * sparse_group_rows(index_) * row_bytes_);
      }
    }
  }

  void read_span(const StepReader& reader, const int8_t* channels, int64_t cols, int64_t span) {
    std::memset(weights_, 0, static_cast<size_t>(spans_.steps * row_bytes_));
    std::memset(positions_, 0, static_cast<size_t>(spans_.steps * row_bytes_));
    const int64_t unit = in_pairs_ ? 2 : 1;
    for (int64_t col = 0; col < cols; ++col)
      for (int64_t step = 0; step < spans_.steps; step += unit) {
        Placed fours[2][kLaneBytes];
        for (int64_t k = 0; k < unit; ++k) {
          int8_t eight[kSparseStep];
          reader.read(channels + col * reader.filter.n, span, step + k, eight);
          choose_four(eight, index_, fours[k]);
        }
        if (in_pairs_)
          balance_unit(fours[0], fours[1], index_, static_cast<int>(32767 / x_maximum_));
        for (int64_t k = 0; k < unit; ++k) keep_step(step + k, col, fours[k]);
      }
  }

  void keep_step(int64_t step, int64_t col, const Placed* four) {
    const int64_t at = step * row_bytes_ + col * kLaneBytes;
    for (int64_t k = 0; k < kLaneBytes; ++k) {
      weights_[at + k] = four[k].weight;
      positions_[at + k] = four[k].position;
    }
  }

  void place_step(int64_t step, int64_t slot, std::byte* group) const {
    const int8_t* weights = weights_ + step * row_bytes_;
    const uint8_t* positions = positions_ + step * row_bytes_;
    std::memcpy(group + slot * row_bytes_, weights, static_cast<size_t>(row_bytes_));
    std::byte* packed = group + kSparseGroup * row_bytes_;
    if (index_ == SparseIndex::kBytes) {
      const int further = in_pairs_ && slot % 2 == 1 ? kSparseStep : 0;
      for (int64_t k = 0; k < row_bytes_; ++k)
        packed[slot * row_bytes_ + k] = static_cast<std::byte>(positions[k] + further);
      return;
    }
    for (int64_t k = 0; k < row_bytes_; ++k)
      packed[k] |= static_cast<std::byte>((positions[k] & 3) << (2 * slot));
  }

  Spans spans_;
  SparseLayout layout_;
  int64_t width_, x_maximum_;
  SparseIndex index_;
  bool in_pairs_ = false;
  int64_t row_bytes_;
  int8_t* weights_;
  uint8_t* positions_;
  int32_t* order_;
};

}  // namespace

SparseLayout::SparseLayout(const Spans& spans)
    : groups(spans.steps / kSparseGroup + kPartialGroups),
      order_at(static_cast<int64_t>(sizeof(SparseHeader)) +
               spans.count * kKinds * static_cast<int64_t>(sizeof(int32_t))),
      groups_at(round_up(
          order_at + spans.count * groups * kSparseGroup * static_cast<int64_t>(sizeof(int32_t)),
          64)) {}

Spans sparse_spans(const ConvShape& shape) {
  return {shape.kh, shape.kw * taps_of(shape)};
}

Panels sparse_panels(const ConvShape& shape, int max_vecs, SparseIndex index) {
  const Spans spans = sparse_spans(shape);
  const SparseLayout layout(spans);
  Panels panels(shape.group_oc(), spans.count * spans.steps, max_vecs);
  panels.vec_lanes = kLanes * spans.count * layout.groups * sparse_group_rows(index) +
                     layout.groups_at / kLaneBytes;
  return panels;
}

void pack_sparse_filter(const ConvShape& shape, const Filter<int8_t>& filter, int max_vecs,
                        SparseIndex index, int64_t x_maximum, std::byte* packed) {
  const Spans spans = sparse_spans(shape);
  const Panels panels = sparse_panels(shape, max_vecs, index);
  const StepReader reader{shape, filter, taps_of(shape)};
  for (int64_t group = 0; group < shape.groups; ++group)
    for (int64_t panel = 0; panel < panels.count(); ++panel) {
      PanelPacker packer(spans, panels.vecs_of(panel) * kLanes, index, x_maximum);
      packer.pack(reader, filter.data + group * filter.group + panels.first_col(panel) * filter.n,
                  panels.cols_of(panel),
                  packed + (group * panels.lanes() + panels.offset(panel)) * kLaneBytes);
    }
}

void count_sparse_products(const ConvShape& shape, int max_vecs, SparseIndex index,
                           const std::byte* packed, ProductShares& shares) {
  const Spans spans = sparse_spans(shape);
  const Panels panels = sparse_panels(shape, max_vecs, index);
  const bool vnni = uses(Feature::kVnni);
  int64_t* const parts[kKinds] = {&shares.chain4, &shares.chain2, &shares.single, &shares.words};
  for (int64_t group = 0; group < shape.groups; ++group)
    for (int64_t panel = 0; panel < panels.count(); ++panel) {
      const std::byte* at = packed + (group * panels.lanes() + panels.offset(panel)) * kLaneBytes;
      const int32_t* ends = reinterpret_cast<const int32_t*>(at + sizeof(SparseHeader));
      const int64_t width = panels.vecs_of(panel) * kLanes * kSparseGroup;
      for (int64_t span = 0; span < spans.count; ++span, ends += kKinds) {
        int32_t first = 0;
        for (int64_t kind = 0; kind < kKinds; first = ends[kind++])
          *(vnni           ? &shares.vnni
            : kChainsSteps ? parts[kind]
                           : &shares.words) += (ends[kind] - first) * width;
      }
    }
}

double sparse_tile_cost_us(int64_t rows, int64_t strip, const Panels& panels, SparseIndex index) {
  constexpr double kCyclesPerUs = 4000;
  // Steps of a vector a cycle: AVX-512 has one port for shuffles on Intel (Zen 5: 1.45), AVX2 two.
  const double per_cycle = kIsa == Isa::kScalar   ? 0.5
                           : kIsa == Isa::kAvx512 ? 1
                           : uses(Feature::kVnni) ? 1.4
                                                  : 0.75;
  const double unpacking = index == SparseIndex::kBits ? 2.0 : 0.0;
  double cycles = 0, all_bytes = 0;
  for (int64_t panel = 0; panel < panels.count(); ++panel) {
    const int vecs = panels.vecs_of(panel);
    const EvenSplit tiles = split_evenly(strip, sparse_max_rows(vecs));
    const double pixels = static_cast<double>(strip), per_tile = static_cast<double>(tiles.parts);
    const double bytes =
        static_cast<double>(vecs * kLanes * kLaneBytes) * (index == SparseIndex::kBits ? 1.25 : 2);
    const double panel_bytes = bytes * static_cast<double>(panels.k);
    all_bytes += panel_bytes;
    double per_k = pixels * vecs / per_cycle + per_tile * vecs * unpacking / 3;
    const double streams = per_tile * bytes / 40;
    if (panel_bytes > 24e3 && per_k < streams) per_k = streams;
    cycles += per_k * static_cast<double>(panels.k) + per_tile * 40 + pixels * vecs * 2.5;
  }
  // Once they come from further away: without this bits, of which fewer come, were never timed
  // beside a small image.
  constexpr double kBytesPerCycle = 10;
  return (cycles * static_cast<double>(rows) + all_bytes / kBytesPerCycle) / kCyclesPerUs;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
