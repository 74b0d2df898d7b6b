// SPDX-License-Identifier: Apache-2.0
#include "kernels/gram_trie.h"

#include <algorithm>
#include <map>
#include <span>

#include "ir/generic_attributes.h"

namespace camshaft::kernels {
namespace {

using ir::Ints;

class Maker {
 public:
  Maker() { trie_.nodes.emplace_back(); }

  void add(std::span<const int64_t> gram, int64_t column, float weight) {
    int64_t node = 0;
    for (const int64_t item : gram) node = next(node, number_of(item));
    GramTrie::Node& end = trie_.nodes[static_cast<size_t>(node)];
    if (end.column < 0) end = {column, weight};  // of equal n-grams the first counts
  }

  GramTrie take(int64_t width) {
    trie_.width = width;
    return std::move(trie_);
  }

 private:
  int64_t number_of(int64_t word) {
    const auto [found, is_new] = numbers_.emplace(word, static_cast<int64_t>(trie_.words.size()));
    if (is_new) trie_.words.push_back(word);
    return found->second;
  }

  int64_t next(int64_t node, int64_t word) {
    const auto [found, is_new] =
        edges_.emplace(std::pair(node, word), static_cast<int64_t>(trie_.nodes.size()));
    if (is_new) {
      trie_.edges.push_back({node, word, found->second});
      trie_.nodes.emplace_back();
    }
    return found->second;
  }

  GramTrie trie_;
  std::map<int64_t, int64_t> numbers_;
  std::map<std::pair<int64_t, int64_t>, int64_t> edges_;
};

// Of n-grams of `size` items: where they begin and end in the pool.
bool range_of(const Ints& counts, size_t size, size_t items, size_t& first, size_t& last) {
  const int64_t from = counts[size - 1],
                to = size < counts.size() ? counts[size] : static_cast<int64_t>(items);
  if (from < 0 || from > to || to > static_cast<int64_t>(items)) return false;
  first = static_cast<size_t>(from), last = static_cast<size_t>(to);
  return true;
}

}  // namespace

GramTrie make_gram_trie(const ir::GenericAttrs& attrs) {
  const Ints &items = ir::integers_attribute(attrs, "pool_int64s"),
             &counts = ir::integers_attribute(attrs, "ngram_counts"),
             &columns = ir::integers_attribute(attrs, "ngram_indexes");
  const ir::GenericAttribute* weights = ir::find_attribute(attrs, "weights");
  if (items.empty() || columns.empty() || *std::min_element(columns.begin(), columns.end()) < 0)
    return {};
  Maker maker;
  size_t number = 0;
  for (size_t size = 1; size <= counts.size(); ++size) {
    size_t first, last;
    if (!range_of(counts, size, items.size(), first, last)) return {};
    for (size_t k = first; k + size <= last; k += size, ++number) {
      if (number >= columns.size()) return {};
      const bool has_weight = weights != nullptr && number < weights->floats.size();
      maker.add(std::span(items).subspan(k, size), columns[number],
                has_weight ? weights->floats[number] : 1);
    }
  }
  return maker.take(*std::max_element(columns.begin(), columns.end()) + 1);
}

}  // namespace camshaft::kernels
