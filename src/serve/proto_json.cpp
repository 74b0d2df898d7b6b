// SPDX-License-Identifier: Apache-2.0
#include "serve/proto_json.h"

#include <string>

namespace camshaft::serve {

namespace pb = google::protobuf;
using Json = nlohmann::ordered_json;

namespace {

// Of a field, or of one element of a repeated one (index 0 and more).
Json value_of(const pb::Message& message, const pb::FieldDescriptor& field, int index) {
  const pb::Reflection& read = *message.GetReflection();
  const bool is_one = index < 0;
  switch (field.cpp_type()) {
    case pb::FieldDescriptor::CPPTYPE_INT32:
      return is_one ? read.GetInt32(message, &field)
                    : read.GetRepeatedInt32(message, &field, index);
    case pb::FieldDescriptor::CPPTYPE_INT64:
      return is_one ? read.GetInt64(message, &field)
                    : read.GetRepeatedInt64(message, &field, index);
    case pb::FieldDescriptor::CPPTYPE_UINT32:
      return is_one ? read.GetUInt32(message, &field)
                    : read.GetRepeatedUInt32(message, &field, index);
    case pb::FieldDescriptor::CPPTYPE_UINT64:
      return is_one ? read.GetUInt64(message, &field)
                    : read.GetRepeatedUInt64(message, &field, index);
    case pb::FieldDescriptor::CPPTYPE_BOOL:
      return is_one ? read.GetBool(message, &field) : read.GetRepeatedBool(message, &field, index);
    case pb::FieldDescriptor::CPPTYPE_FLOAT:
      return is_one ? read.GetFloat(message, &field)
                    : read.GetRepeatedFloat(message, &field, index);
    case pb::FieldDescriptor::CPPTYPE_DOUBLE:
      return is_one ? read.GetDouble(message, &field)
                    : read.GetRepeatedDouble(message, &field, index);
    case pb::FieldDescriptor::CPPTYPE_ENUM:
      return (is_one ? read.GetEnum(message, &field) : read.GetRepeatedEnum(message, &field, index))
          ->name();
    case pb::FieldDescriptor::CPPTYPE_STRING:
      return is_one ? read.GetString(message, &field)
                    : read.GetRepeatedString(message, &field, index);
    case pb::FieldDescriptor::CPPTYPE_MESSAGE:
      return to_json(is_one ? read.GetMessage(message, &field)
                            : read.GetRepeatedMessage(message, &field, index));
  }
  return nullptr;
}

std::string key_text(const Json& key) {
  return key.is_string() ? key.get<std::string>() : key.dump();
}

Json map_of(const pb::Message& message, const pb::FieldDescriptor& field) {
  const pb::Reflection& read = *message.GetReflection();
  Json object = Json::object();
  for (int k = 0; k < read.FieldSize(message, &field); ++k) {
    const pb::Message& entry = read.GetRepeatedMessage(message, &field, k);
    const pb::Descriptor& type = *entry.GetDescriptor();
    object[key_text(value_of(entry, *type.map_key(), -1))] = value_of(entry, *type.map_value(), -1);
  }
  return object;
}

Json list_of(const pb::Message& message, const pb::FieldDescriptor& field) {
  Json list = Json::array();
  const int count = message.GetReflection()->FieldSize(message, &field);
  for (int k = 0; k < count; ++k) list.push_back(value_of(message, field, k));
  return list;
}

}  // namespace

Json to_json(const pb::Message& message) {
  Json object = Json::object();
  const pb::Descriptor& type = *message.GetDescriptor();
  const pb::Reflection& read = *message.GetReflection();
  for (int k = 0; k < type.field_count(); ++k) {
    const pb::FieldDescriptor& field = *type.field(k);
    if (field.is_map())
      object[field.name()] = map_of(message, field);
    else if (field.is_repeated())
      object[field.name()] = list_of(message, field);
    else if (!field.has_presence() || read.HasField(message, &field))
      object[field.name()] = value_of(message, field, -1);
  }
  return object;
}

}  // namespace camshaft::serve
