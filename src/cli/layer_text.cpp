// SPDX-License-Identifier: Apache-2.0
#include "cli/layer_text.h"

namespace camshaft::cli {

std::string shapes_text(const std::vector<LayerTensor>& tensors) {
  std::string text;
  for (const LayerTensor& tensor : tensors)
    text += (text.empty() ? "" : " ") + to_string(tensor.dims);
  return text;
}

}  // namespace camshaft::cli
