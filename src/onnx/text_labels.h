// SPDX-License-Identifier: Apache-2.0
// Texts that a model only picks its labels from (classic classifiers fitted on names) become their
// positions, int64, before import: a label is then a number, and a warning says of which list.
#pragma once

#include "onnx/model.h"

namespace camshaft::onnx_import {

// Whether nodes or initializers of the graph hold labels that are texts.
bool has_text_labels(const GraphDef& graph);

// The graph with positions instead. Texts that anything else is done with stay, for import to
// refuse.
std::shared_ptr<const GraphDef> with_label_positions(const GraphDef& graph);

// "setosa, versicolor, virginica", for a warning.
std::string list_labels(const std::vector<std::string_view>& labels);

}  // namespace camshaft::onnx_import
