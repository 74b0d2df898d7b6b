// SPDX-License-Identifier: Apache-2.0
// Element types in the protocol's words ("FP32"), in those of model configurations (TYPE_FP32), and
// their elements as JSON numbers.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "camshaft/types.h"
#include "serve/request.h"

namespace camshaft::serve {

// "FP32"; "" for a type the protocol has no word for.
std::string_view protocol_name(DataType type);
// kUndefined: no such word, or one for which there is no element type here (BYTES).
DataType type_of_protocol_name(std::string_view name);
// The number of inference.DataType; 0: none.
int config_type(DataType type);
DataType type_of_config(int config_type);

// Whether the protocol has a JSON form: 16-bit floats have none.
bool has_json_form(DataType type);
// Appends "[1,2.5]" (flat). An error for NaN and infinity, which JSON does not have.
std::optional<Error> append_json(const Tensor& tensor, std::string& text);

// Elements of dims, -1 if any is negative or the product or its bytes would pass 2^40.
int64_t checked_elements(const Dims& dims, DataType type);

}  // namespace camshaft::serve
