// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "kernels/vector/counts.h"
#include "kernels/vector/gemm/gemm_byte_kernels.h"
#include "kernels/vector/sparse/byte_lists.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

// X stays in L1 beside the sums that pass.
constexpr int64_t kBlockBytes = 28 * 1024;

bool has_weights(const int8_t* quad) {
  return (quad[0] | quad[1] | quad[2] | quad[3]) != 0;
}

struct QuadReader {
  const ByteLists& lists;
  const ConvShape& shape;
  const Filter<int8_t>& filter;

  void read(int64_t group, int64_t n, int64_t k, int8_t* weights) const {
    const int64_t tap = k / lists.tap_quads, first = k % lists.tap_quads * kQuad;
    const int8_t* from = filter.data + group * filter.group + n * filter.n + first * filter.c +
                         tap / shape.kw * filter.h + tap % shape.kw * filter.w;
    const int64_t count = smaller(kQuad, shape.group_ic() - first);
    for (int64_t c = 0; c < kQuad; ++c) weights[c] = c < count ? from[c * filter.c] : int8_t{0};
  }
};

// The largest sums of positive and of negative weights of an entry's two 16-bit lanes.
struct Load {
  int positive, negative;

  explicit Load(const int8_t* w) : positive(0), negative(0) {
    for (int lane = 0; lane < kQuad; lane += 2) {
      const int above = (w[lane] > 0 ? w[lane] : 0) + (w[lane + 1] > 0 ? w[lane + 1] : 0);
      const int below = above - w[lane] - w[lane + 1];
      positive = above > positive ? above : positive;
      negative = below > negative ? below : negative;
    }
  }
  int largest() const { return positive > negative ? positive : negative; }
};

// The entries of one list, in the order they are multiplied. Two that stay within 16 bits together
// for all codes make a chain; an odd one is chained with zeros. Longer chains would save a tenth of
// the operations, but lists are short, and loops of three lengths are mispredicted for longer.
class ListPacker {
 public:
  // `most` entries; no code exceeds x_maximum.
  ListPacker(int64_t most, int64_t x_maximum)
      : entries_(new ByteEntry[static_cast<size_t>(most)]),
        left_(new int32_t[static_cast<size_t>(most)]),
        most_positive_(static_cast<int>(32767 / at_least_one(x_maximum))),
        most_negative_(static_cast<int>(32768 / at_least_one(x_maximum))) {}
  ListPacker(const ListPacker&) = delete;
  ListPacker& operator=(const ListPacker&) = delete;
  ~ListPacker() {
    delete[] entries_;
    delete[] left_;
  }

  void clear() { count_ = 0; }
  void add(int64_t offset, const int8_t* weights) {
    ByteEntry& entry = entries_[count_++];
    entry.offset = static_cast<int32_t>(offset);
    std::memcpy(entry.weights, weights, sizeof entry.weights);
  }
  // Gives where the list ends; `ends` are counted as `first` is.
  int32_t store(int32_t first, int32_t* ends, ByteEntry* entries) {
    int32_t at = first;
    if (kChainsSteps)
      at = store_chains(first, ends, entries);
    else
      for (int32_t k = 0; k < count_; ++k) entries[at++] = entries_[k];
    for (int64_t kind = kChainsSteps ? kByteListKinds - 1 : 0; kind < kByteListKinds; ++kind)
      ends[kind] = at;
    return at;
  }

 private:
  const int8_t* weights(int32_t entry) const { return entries_[entry].weights; }
  bool fits(int positive, int negative) const {
    return positive <= most_positive_ && negative <= most_negative_;
  }
  bool fits(const Load& a, const Load& b) const {
    return fits(a.positive + b.positive, a.negative + b.negative);
  }

  // Those that fit alone, the largest first.
  int32_t list_by_size() {
    int32_t num = 0;
    for (int32_t k = 0; k < count_; ++k) {
      const Load load(weights(k));
      if (!fits(load.positive, load.negative)) continue;
      int32_t place = num++;
      for (; place > 0 && Load(weights(left_[place - 1])).largest() < load.largest(); --place)
        left_[place] = left_[place - 1];
      left_[place] = k;
    }
    return num;
  }

  int32_t store_chains(int32_t first, int32_t* ends, ByteEntry* entries) {
    int32_t num = list_by_size(), at = first, alone = 0;
    // The largest with the smallest: where these do not fit, nothing does.
    int32_t last = num - 1;
    for (int32_t k = 0; k <= last; ++k) {
      const Load load(weights(left_[k]));
      if (k < last && fits(load, Load(weights(left_[last])))) {
        entries[at++] = entries_[left_[k]];
        entries[at++] = entries_[left_[last--]];
      } else {
        left_[alone++] = left_[k];
      }
    }
    const bool has_odd = alone == 1;
    if (has_odd) {
      entries[at++] = entries_[left_[0]];
      entries[at++] = {entries_[left_[0]].offset, {0, 0, 0, 0}};
    }
    ends[0] = at;
    for (int32_t k = has_odd ? 1 : 0; k < alone; ++k) entries[at++] = entries_[left_[k]];
    ends[1] = at;
    for (int32_t k = 0; k < count_; ++k)
      if (const Load load(weights(k)); !fits(load.positive, load.negative))
        entries[at++] = entries_[k];
    return at;
  }

  ByteEntry* entries_;
  int32_t* left_;
  int most_positive_, most_negative_;
  int32_t count_ = 0;
};

}  // namespace

ByteLists::ByteLists(const ConvShape& s, int64_t share)
    : groups(s.groups),
      channels(s.group_oc()),
      taps(s.kh * s.kw),
      tap_quads(ceil_div(s.group_ic(), kQuad)),
      blocks(split_evenly(taps * tap_quads, kBlockBytes / kByteRowBytes)),
      most(s.oc * taps * tap_quads * share / 4),
      capacity(most + lists()),
      bias_lanes(packed_bias_lanes(s)),
      ends_at(bias_lanes * kLaneBytes),
      entries_at(round_up(ends_at + groups * blocks.parts * channels * kByteListKinds *
                                        static_cast<int64_t>(sizeof(int32_t)),
                          64)),
      bytes(entries_at + capacity * static_cast<int64_t>(sizeof(ByteEntry))) {}

void pack_byte_lists(const ByteLists& lists, const ConvShape& s, const Filter<int8_t>& filter,
                     int64_t x_maximum, std::byte* packed) {
  std::memset(packed + lists.ends_at, 0, static_cast<size_t>(lists.bytes - lists.ends_at));
  const QuadReader reader{lists, s, filter};
  int32_t* ends = reinterpret_cast<int32_t*>(packed + lists.ends_at);
  ByteEntry* entries = reinterpret_cast<ByteEntry*>(packed + lists.entries_at);
  ListPacker packer(at_least_one(lists.blocks.size(0)), x_maximum);
  int32_t count = 0;
  for (int64_t group = 0; group < lists.groups; ++group)
    for (int64_t b = 0; b < lists.blocks.parts; ++b)
      for (int64_t n = 0; n < lists.channels; ++n) {
        packer.clear();
        for (int64_t k = 0; k < lists.blocks.size(b); ++k) {
          int8_t quad[kQuad];
          reader.read(group, n, lists.blocks.start(b) + k, quad);
          if (has_weights(quad)) packer.add(k * kByteRowBytes, quad);
        }
        count = packer.store(count, ends + lists.list(group, b, n) * kByteListKinds, entries);
      }
}

void count_list_products(const ByteLists& lists, const std::byte* packed, ProductShares& shares) {
  const bool vnni = uses(Feature::kVnni);
  int64_t* const parts[kByteListKinds] = {&shares.chain2, &shares.single, &shares.words};
  const int32_t* ends = lists.ends(packed);
  int32_t first = 0;
  for (int64_t list = 0; list < lists.lists(); ++list, ends += kByteListKinds)
    for (int64_t kind = 0; kind < kByteListKinds; first = ends[kind++])
      *(vnni ? &shares.vnni : kChainsSteps ? parts[kind] : &shares.words) += ends[kind] - first;
}

double byte_lists_cost_us(const ByteLists& lists, const ConvShape& s, double entries) {
  constexpr double kCyclesPerUs = 4000;
  // Measured, cycles per entry and vector of pixels.
  const double per_entry = kIsa == Isa::kScalar    ? 8
                           : !uses(Feature::kVnni) ? 1
                           : kIsa == Isa::kAvx512  ? 0.85
                                                   : 0.75;
  const double vectors = static_cast<double>(ceil_div(s.batch * s.oh * s.ow, kLanes));
  const double turned =
      vectors * static_cast<double>(lists.groups * lists.taps * lists.tap_quads) * 2;
  const double passes = vectors * static_cast<double>(lists.lists()) * 2;
  const double cycles =
      vectors * entries * per_entry + turned + passes + vectors * static_cast<double>(s.oc) * 6;
  return cycles / kCyclesPerUs;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
