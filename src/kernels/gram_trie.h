// SPDX-License-Identifier: Apache-2.0
// The n-grams of TfIdfVectorizer as a tree of prefixes over numbered words. Made here, outside the
// files compiled per instruction set.
#pragma once

#include <vector>

#include "ir/attrs.h"

namespace camshaft::kernels {

struct GramTrie {
  struct Node {
    int64_t column = -1;  // of the output; below 0: no n-gram ends here
    float weight = 1;
  };
  // From a node by a word to the next one. Node 0 is the root.
  struct Edge {
    int64_t node, word, next;
  };
  ir::Ints words;  // each once: its number is its place
  std::vector<Node> nodes;
  std::vector<Edge> edges;
  int64_t width = 0;  // columns

  bool empty() const { return width == 0; }  // the attributes are not as they should be
};

GramTrie make_gram_trie(const ir::GenericAttrs& attrs);

}  // namespace camshaft::kernels
