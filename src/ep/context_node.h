// SPDX-License-Identifier: Apache-2.0
// An engine inside an ONNX file: the EPContext node, written and read.
#pragma once

#include "ep/context_data.h"
#include "ep/graph_reader.h"
#include "ep/options.h"
#include "ep/runner.h"

namespace camshaft::ep {

// The node for an engine: its bytes inside, in a file beside the context model, or handed to the
// application. `number` tells the nodes of one session apart.
Result<abi::Node*> make_context_node(const Host& host, const Options& options,
                                     const ContextData& data,
                                     const std::filesystem::path& model_path,
                                     const NodeNames& names, const Engine& engine, int number);
// `directory` is the model's.
Result<Engine> read_context_node(const Host& host, const onnx_import::NodeDef& node,
                                 const ContextData& data, const std::filesystem::path& directory);

// What an engine made here needs elsewhere: "camshaft 0.1.0; isa avx512; cpu …".
std::string compatibility_text(bool portable);
abi::Compatibility judge_compatibility(const std::string& text);

}  // namespace camshaft::ep
