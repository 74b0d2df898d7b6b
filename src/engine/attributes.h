// SPDX-License-Identifier: Apache-2.0
// Attribute structs to and from their stored form, by walking fields().
#pragma once

#include "engine/plan_generated.h"
#include "ir/attrs.h"

namespace camshaft::engine {

using AttributeVector = flatbuffers::Vector<flatbuffers::Offset<fb::Attribute>>;

flatbuffers::Offset<AttributeVector> store_attributes(flatbuffers::FlatBufferBuilder& builder,
                                                      const ir::Attrs& attrs);
// Every number is checked against its type's range; symbols against `num_symbols`.
Result<ir::Attrs> read_attributes(ir::LayerKind kind, const AttributeVector* stored,
                                  int num_symbols);

// Every kind and attribute struct: names and types of the fields, values of the enums.
std::string attribute_layouts();

int64_t dim_code(ir::Dim dim);
Result<ir::Dim> dim_from_code(int64_t code, int num_symbols);
Result<ir::Shape> shape_from_codes(const flatbuffers::Vector<int64_t>* codes, int num_symbols);

}  // namespace camshaft::engine
