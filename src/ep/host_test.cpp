// SPDX-License-Identifier: Apache-2.0
// Agreeing on a version with hosts older and newer than any that was tried.
#include "ep/host.h"

#include <array>

#include <gtest/gtest.h>

namespace camshaft::ep {
namespace {

std::string version_text, refused_with;
uint32_t asked_for = 0;
std::array<void*, 512> tables = {};

abi::Status* create_status(int, const char* text) {
  refused_with = text;
  return reinterpret_cast<abi::Status*>(&refused_with);
}
const char* version() {
  return version_text.c_str();
}
const void* get_api(uint32_t wanted) {
  asked_for = wanted;
  return tables.data();
}
const void* get_table() {
  return tables.data();
}

// What a host that calls itself `text` is told.
std::unique_ptr<Host> negotiate(const std::string& text, abi::Status** refusal) {
  version_text = text;
  refused_with.clear();
  tables[0] = reinterpret_cast<void*>(&create_status);
  for (size_t slot : {291, 317}) tables[slot] = reinterpret_cast<void*>(&get_table);
  const std::array<void*, 2> base = {reinterpret_cast<void*>(&get_api),
                                     reinterpret_cast<void*>(&version)};
  return Host::negotiate(base.data(), refusal);
}

TEST(Host, AgreesOnTheNewestVersionBothKnow) {
  abi::Status* refusal = nullptr;
  for (const auto& [text, agreed] : {std::pair{"1.23.2", 23u}, {"1.29.0", 29u}, {"1.99.1", 29u}}) {
    const std::unique_ptr<Host> host = negotiate(text, &refusal);
    ASSERT_NE(host, nullptr) << text;
    EXPECT_EQ(host->version, agreed);
    EXPECT_EQ(asked_for, agreed);
    EXPECT_EQ(refusal, nullptr);
  }
}

TEST(Host, OlderOnesAreRefusedInWords) {
  abi::Status* refusal = nullptr;
  EXPECT_EQ(negotiate("1.22.1", &refusal), nullptr);
  EXPECT_NE(refusal, nullptr);
  EXPECT_EQ(refused_with,
            "Camshaft's execution provider needs ONNX Runtime 1.23 or later, this is 1.22.1");
}

}  // namespace
}  // namespace camshaft::ep
