// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/sparse/gemm_sparse.h"

#include <cstring>

#include "kernels/vector/counts.h"
#include "kernels/vector/gemm/gemm_byte_kernels.h"

#if defined(CAMSHAFT_TARGET_avx2)
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
  const SparseFilter& filter;
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

// What two weights that share a 16-bit lane can add up to.
int load_of(Placed a, Placed b) {
  const int above = (a.weight > 0 ? a.weight : 0) + (b.weight > 0 ? b.weight : 0);
  const int below = above - a.weight - b.weight;
  return above > below ? above : below;
}
int load_of(const Placed* four) {
  const int first = load_of(four[0], four[1]), second = load_of(four[2], four[3]);
  return first > second ? first : second;
}

void exchange(Placed& a, Placed& b) {
  const Placed kept = a;
  a = b;
  b = kept;
}

// Exchanges bytes 0 and 2, or 1 and 2, where that makes the lanes' sums smaller: most steps with
// weights of either sign fit 16 bits then, whatever the codes are.
void balance(Placed* four, SparseIndex index) {
  Placed best[kLaneBytes], tried[kLaneBytes];
  const int ways = index == SparseIndex::kBits ? 2 : 3;
  for (int way = 0; way < ways; ++way) {
    std::memcpy(tried, four, sizeof tried);
    if (way == 1) exchange(tried[0], tried[2]);
    if (way == 2) exchange(tried[1], tried[2]);
    if (way == 0 || load_of(tried) < load_of(best)) std::memcpy(best, tried, sizeof best);
  }
  std::memcpy(four, best, sizeof best);
}

// Four of eight weights and their positions; false: there are more, or the halves hold more than
// two and positions are two bits. Of those, bytes 0 and 2 are for the first half.
bool choose_four(const int8_t* eight, SparseIndex index, int8_t* weights, uint8_t* positions) {
  const int parts = index == SparseIndex::kBits ? 2 : 1;
  const int width = static_cast<int>(kSparseStep) / parts, most = 4 / parts;
  Placed four[kLaneBytes];
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
  for (int64_t k = 0; k < kLaneBytes; ++k) {
    weights[k] = four[k].weight;
    positions[k] = four[k].position;
  }
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

#if defined(CAMSHAFT_TARGET_avx2)
// Kinds of whole groups: an odd pair and a lone single step make chains of four with zeros.
void order_span(const int8_t* weights, int64_t steps, ChainSorter& sorter, int32_t* ends,
                GroupOrder& order) {
  int32_t* sorted = new int32_t[static_cast<size_t>(steps)];
  int32_t last[kKinds];
  sorter.sort(weights, last, sorted);
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

// One panel in the making: its steps as [steps][width][4], then their place in it.
class PanelPacker {
 public:
  PanelPacker(const Spans& spans, int64_t width, SparseIndex index, int64_t x_maximum)
      : spans_(spans),
        layout_(spans),
        width_(width),
        index_(index),
        row_bytes_(width * kLaneBytes),
        weights_(new int8_t[static_cast<size_t>(spans.steps * row_bytes_)]),
        positions_(new uint8_t[static_cast<size_t>(spans.steps * row_bytes_)]),
        order_(new int32_t[static_cast<size_t>(layout_.groups * kSparseGroup)])
#if defined(CAMSHAFT_TARGET_avx2)
        ,
        sorter_(spans.steps, width, x_maximum)
#endif
  {
    (void)x_maximum;
  }
  PanelPacker(const PanelPacker&) = delete;
  PanelPacker& operator=(const PanelPacker&) = delete;
  ~PanelPacker() {
    delete[] weights_;
    delete[] positions_;
    delete[] order_;
  }

  void pack(const StepReader& reader, const int8_t* channels, int64_t cols, std::byte* panel) {
    const auto [groups, order_at, groups_at] = layout_;
    const int64_t span_bytes = groups * sparse_group_rows(index_) * row_bytes_;
    std::memset(panel, 0, static_cast<size_t>(groups_at + spans_.count * span_bytes));
    const SparseHeader header = {index_ == SparseIndex::kBits, static_cast<int32_t>(groups), {}};
    std::memcpy(panel, &header, sizeof header);
    int32_t* ends = reinterpret_cast<int32_t*>(panel + sizeof header);
    for (int64_t span = 0; span < spans_.count; ++span, ends += kKinds) {
      read_span(reader, channels, cols, span);
      GroupOrder order{order_};
#if defined(CAMSHAFT_TARGET_avx2)
      order_span(weights_, spans_.steps, sorter_, ends, order);
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

 private:
  void read_span(const StepReader& reader, const int8_t* channels, int64_t cols, int64_t span) {
    std::memset(weights_, 0, static_cast<size_t>(spans_.steps * row_bytes_));
    std::memset(positions_, 0, static_cast<size_t>(spans_.steps * row_bytes_));
    for (int64_t col = 0; col < cols; ++col)
      for (int64_t step = 0; step < spans_.steps; ++step) {
        int8_t eight[kSparseStep];
        reader.read(channels + col * reader.filter.n, span, step, eight);
        const int64_t at = step * row_bytes_ + col * kLaneBytes;
        choose_four(eight, index_, weights_ + at, positions_ + at);
      }
  }

  void place_step(int64_t step, int64_t slot, std::byte* group) const {
    const int8_t* weights = weights_ + step * row_bytes_;
    const uint8_t* positions = positions_ + step * row_bytes_;
    std::memcpy(group + slot * row_bytes_, weights, static_cast<size_t>(row_bytes_));
    std::byte* packed = group + kSparseGroup * row_bytes_;
    if (index_ == SparseIndex::kBytes) {
      std::memcpy(packed + slot * row_bytes_, positions, static_cast<size_t>(row_bytes_));
      return;
    }
    for (int64_t k = 0; k < row_bytes_; ++k)
      packed[k] |= static_cast<std::byte>((positions[k] & 3) << (2 * slot));
  }

  Spans spans_;
  SparseLayout layout_;
  int64_t width_;
  SparseIndex index_;
  int64_t row_bytes_;
  int8_t* weights_;
  uint8_t* positions_;
  int32_t* order_;
#if defined(CAMSHAFT_TARGET_avx2)
  ChainSorter sorter_;
#endif
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

std::string refuse_sparse(const ConvShape& shape, const SparseFilter& filter, SparseIndex index) {
  const Spans spans = sparse_spans(shape);
  const StepReader reader{shape, filter, taps_of(shape)};
  for (int64_t group = 0; group < shape.groups; ++group)
    for (int64_t n = 0; n < shape.group_oc(); ++n)
      for (int64_t span = 0; span < spans.count; ++span)
        for (int64_t step = 0; step < spans.steps; ++step) {
          int8_t eight[kSparseStep], weights[kLaneBytes];
          uint8_t positions[kLaneBytes];
          reader.read(filter.data + group * filter.group + n * filter.n, span, step, eight);
          if (!choose_four(eight, index, weights, positions))
            return index == SparseIndex::kBits ? "weights are not 2:4" : "weights are not 4:8";
        }
  return {};
}

void pack_sparse_filter(const ConvShape& shape, const SparseFilter& filter, int max_vecs,
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
  // Steps of a vector a cycle: AVX-512 has one port for shuffles, AVX2 two.
  const double per_cycle = kIsa == Isa::kScalar   ? 0.5
                           : kIsa == Isa::kAvx512 ? 1
                           : uses(Feature::kVnni) ? 1.4
                                                  : 0.75;
  const double unpacking = index == SparseIndex::kBits ? 2.0 : 0.0;
  double cycles = 0;
  for (int64_t panel = 0; panel < panels.count(); ++panel) {
    const int vecs = panels.vecs_of(panel);
    const EvenSplit tiles = split_evenly(strip, sparse_max_rows(vecs));
    const double pixels = static_cast<double>(strip), per_tile = static_cast<double>(tiles.parts);
    const double bytes =
        static_cast<double>(vecs * kLanes * kLaneBytes) * (index == SparseIndex::kBits ? 1.25 : 2);
    double per_k = pixels * vecs / per_cycle + per_tile * vecs * unpacking / 3;
    const double streams = per_tile * bytes / 40;
    if (bytes * static_cast<double>(panels.k) > 24e3 && per_k < streams) per_k = streams;
    cycles += per_k * static_cast<double>(panels.k) + per_tile * 40 + pixels * vecs * 2.5;
  }
  return cycles * static_cast<double>(rows) / kCyclesPerUs;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
