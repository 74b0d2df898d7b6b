// SPDX-License-Identifier: Apache-2.0
// Protocol messages as the protocol's JSON: field names as they are, numbers as numbers, defaults
// shown.
#pragma once

#include <google/protobuf/message.h>
#include <nlohmann/json.hpp>

namespace camshaft::serve {

nlohmann::ordered_json to_json(const google::protobuf::Message& message);

}  // namespace camshaft::serve
