// SPDX-License-Identifier: Apache-2.0
// TfIdfVectorizer: words become numbers once, n-grams are walks down a tree of prefixes.
#include "kernels/gram_trie.h"
#include "kernels/nest.h"
#include "kernels/vector/encoding/key_table.h"
#include "kernels/vector/generic.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::tf_idf {
namespace {

constexpr uint64_t kNone = ~uint64_t{0};

enum class Mode : uint8_t { kCount, kWeight, kSum };

struct Grams {
  TensorView x, y;
  KeyTable words, edges;
  GramTrie::Node* nodes;
  int64_t num_words;
  int64_t rows, length, width, shortest, longest, skips;
  Mode mode;
  double predicted_us;
};

// The node that the n-gram of `size` words from `words` on, `step` apart, leads to.
CAMSHAFT_INLINE uint64_t walk(const Grams& s, const int64_t* words, int64_t size, int64_t step) {
  uint64_t node = 0;
  for (int64_t k = 0; k < size && node != kNone; ++k) {
    const int64_t word = words[k * step];
    node = word < 0 ? kNone : s.edges[static_cast<int64_t>(node) * s.num_words + word];
  }
  return node;
}

void add_gram(const Grams& s, const GramTrie::Node& node, float* row) {
  float& value = row[node.column * s.y.strides[s.y.rank - 1]];
  if (s.mode == Mode::kCount)
    value += 1;
  else
    value = s.mode == Mode::kSum ? value + node.weight : node.weight;
}

void encode_row(const Grams& s, const int64_t* words, float* row) {
  for (int64_t k = 0; k < s.width; ++k) row[k * s.y.strides[s.y.rank - 1]] = 0;
  for (int64_t size = s.shortest; size <= s.longest; ++size)
    for (int64_t skip = 0; skip <= (size == 1 ? 0 : s.skips); ++skip) {
      const int64_t reach = (size - 1) * (skip + 1);
      for (int64_t start = 0; start + reach < s.length; ++start) {
        const uint64_t node = walk(s, words + start, size, skip + 1);
        if (node != kNone && s.nodes[node].column >= 0) add_gram(s, s.nodes[node], row);
      }
    }
}

template <class T>
void run(Grams& s, const KernelCall& call) {
  const int64_t step = s.x.rank > 0 ? s.x.strides[s.x.rank - 1] : 0,
                x_row = s.x.rank == 2 ? s.x.strides[0] : 0,
                y_row = s.y.rank == 2 ? s.y.strides[0] : 0;
  split(call.pool, s.rows, s.predicted_us, [&](int worker, int64_t first, int64_t last) {
    int64_t* words = reinterpret_cast<int64_t*>(call.workspace) + worker * s.length;
    for (int64_t row = first; row < last; ++row) {
      const T* x = call.input<const T>(0) + row * x_row;
      for (int64_t k = 0; k < s.length; ++k)
        words[k] = static_cast<int64_t>(s.words[static_cast<int64_t>(x[k * step])]);
      encode_row(s, words, call.output<float>(0) + row * y_row);
    }
  });
}

std::string refusal(const Problem& p) {
  if (!is_operator(p, "TfIdfVectorizer")) return "another operator";
  if (p.inputs[0].type != DataType::kInt64 && p.inputs[0].type != DataType::kInt32)
    return "words that are neither int64 nor int32";
  if (p.outputs[0].type != DataType::kFloat || p.inputs[0].extents.size() > 2) return "the output";
  if (generic_integer(*p.layer, "min_gram_length", 1) < 1) return "n-grams of no words";
  const std::string_view mode = generic_text(*p.layer, "mode", "TF");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF") return "the mode";
  if (make_gram_trie(generic_attrs(*p.layer)).empty()) return "the pool of n-grams";
  return "";
}

void fill_tables(const GramTrie& trie, Grams& s) {
  const auto word = [&](int64_t k) { return trie.words[static_cast<size_t>(k)]; };
  s.words.fill(s.num_words, kNone, word, [](int64_t k) { return static_cast<uint64_t>(k); });
  const auto edge = [&](int64_t k) -> const GramTrie::Edge& {
    return trie.edges[static_cast<size_t>(k)];
  };
  s.edges.fill(
      static_cast<int64_t>(trie.edges.size()), kNone,
      [&](int64_t k) { return edge(k).node * s.num_words + edge(k).word; },
      [&](int64_t k) { return static_cast<uint64_t>(edge(k).next); });
  for (size_t k = 0; k < trie.nodes.size(); ++k) s.nodes[k] = trie.nodes[k];
}

void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  const ir::Layer& layer = *args.layer;
  const GramTrie trie = make_gram_trie(generic_attrs(layer));
  Grams s{};
  s.x = x, s.y = y;
  s.num_words = static_cast<int64_t>(trie.words.size());
  s.words = KeyTable::make(kernel, s.num_words);
  s.edges = KeyTable::make(kernel, static_cast<int64_t>(trie.edges.size()));
  s.nodes = keep_array<GramTrie::Node>(kernel, static_cast<int64_t>(trie.nodes.size()));
  fill_tables(trie, s);
  s.rows = x.rank == 2 ? x.extents[0] : 1;
  s.length = x.rank == 0 ? 1 : x.extents[x.rank - 1];
  s.width = trie.width;
  s.shortest = generic_integer(layer, "min_gram_length", 1);
  s.longest = smaller(generic_integer(layer, "max_gram_length", 1), s.length);
  s.skips = smaller(generic_integer(layer, "max_skip_count", 0), s.length);
  const std::string_view mode = generic_text(layer, "mode", "TF");
  s.mode = mode == "TF" ? Mode::kCount : mode == "IDF" ? Mode::kWeight : Mode::kSum;
  s.predicted_us = static_cast<double>(s.rows * s.length) * 0.005;
  kernel.workspace_bytes =
      static_cast<size_t>(threads_of(args)) * static_cast<size_t>(s.length) * sizeof(int64_t);
  if (x.type == DataType::kInt64)
    keep_state<run<int64_t>>(kernel, s);
  else
    keep_state<run<int32_t>>(kernel, s);
}

double cost_us(const Problem& p) {
  return 0.2 + static_cast<double>(count_of(p.inputs[0])) * 0.005;
}

constexpr Tactic kTactics[] = {
    {"tf_idf", ir::LayerKind::kGeneric, kIsa, FormatRule::kLinear, 1, refusal, cost_us,
     CAMSHAFT_NOTHING_PACKED, prepare},
};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::tf_idf
