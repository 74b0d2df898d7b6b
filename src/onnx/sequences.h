// SPDX-License-Identifier: Apache-2.0
// Sequences of tensors are taken apart before import: of lists that grow (SequenceInsert in a Loop)
// the Loop stacks what it appends, of others every element is a tensor of its own. What is left are
// the operators of ops_sequence.cpp, on tensors.
#pragma once

#include "onnx/model.h"

namespace camshaft::onnx_import {

// Of the operators that take the place of those on sequences.
inline constexpr std::string_view kSequenceDomain = "camshaft.sequences";

bool uses_sequences(const GraphDef& graph);

// The model's graph in which calls of functions on sequences are the bodies of those functions.
std::shared_ptr<const GraphDef> with_sequence_functions(const Model& model);

// The graph without sequences. What cannot be taken apart becomes a node of kSequenceDomain with
// the attribute "reason", which import refuses: all of them are reported at once.
std::shared_ptr<const GraphDef> without_sequences(const GraphDef& graph);

}  // namespace camshaft::onnx_import
