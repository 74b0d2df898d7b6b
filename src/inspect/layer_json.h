// SPDX-License-Identifier: Apache-2.0
// Layer information in the schema of TensorRT 8.2-10.x (plus keys of our own at the end of each
// layer), as JSON and as text.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "camshaft/inspector.h"
#include "engine/engine.h"

namespace camshaft::inspect {

// One detailed layer: Name, LayerType, Inputs, Outputs, ParameterType and parameters, TacticName,
// TacticValue, StreamId, Metadata, then Precision, Isa, FLOPs, Bytes, WeightBytes, TimeUs,
// PercentOfPeak, SourceNodes, Region and RegionLayer where known.
nlohmann::ordered_json layer_object(const engine::Engine& engine, const LayerInfo& layer,
                                    Wording wording = Wording::kCamshaft);

// The document: {"Layers": […], "Bindings": […]}. Where only names are asked for, a region is one
// entry in the place of its first layer; with all details "Regions" follow in our own words.
std::string engine_json(const engine::Engine& engine, const std::vector<LayerInfo>& layers,
                        const std::vector<RegionInfo>& regions, Verbosity verbosity,
                        Wording wording = Wording::kCamshaft);
std::string layer_json(const engine::Engine& engine, const LayerInfo& layer);

// "Layers:", a line per layer, "Bindings:", a line per network input and output.
std::string engine_text(const engine::Engine& engine, const std::vector<LayerInfo>& layers,
                        const std::vector<RegionInfo>& regions, Verbosity verbosity,
                        Wording wording = Wording::kCamshaft);
// "Name: n, LayerType: T, Inputs: [ { Name: a, … }], …, Metadata: [ONNX Layer: n]"
std::string layer_text(const engine::Engine& engine, const LayerInfo& layer,
                       Wording wording = Wording::kCamshaft);
// The verbose log's form: "Layer(T): n, Tactic: 0x…, a (Float[1,3,8,8]) -> y (Float[1,8,8,8])"; in
// the words of trtexec 8 "a[Float(1,3,8,8)] -> y[Float(1,8,8,8)]".
std::string layer_line(const LayerInfo& layer, Wording wording = Wording::kCamshaft);

std::string region_line(const RegionInfo& region, Wording wording = Wording::kCamshaft);

// JSON as TensorRT lays it out: a key per line, short lists and objects of scalars on one. Invalid
// UTF-8 is replaced.
std::string pretty_json(const nlohmann::ordered_json& value);

}  // namespace camshaft::inspect
