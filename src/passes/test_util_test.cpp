// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <regex>

#include "ir/text.h"
#include "kernels/interpreter.h"
#include "passes/test_util.h"

namespace camshaft::passes {

using namespace ir;

namespace {

kernels::Value random_value(const Tensor& tensor, uint64_t seed, int64_t symbol_extent) {
  kernels::Value value;
  value.type = tensor.type;
  for (Dim dim : tensor.shape)
    value.extents.push_back(dim.is_known() ? dim.extent() : symbol_extent);
  std::vector<std::byte> bytes(bytes_for(tensor.type, value.elements()));
  for (int64_t k = 0; k < value.elements(); ++k) {
    const double unit = static_cast<double>(next_random(seed) >> 11) * 0x1p-53;
    if (tensor.type == DataType::kFloat) {
      const float number = static_cast<float>(4 * unit - 2);
      std::memcpy(bytes.data() + 4 * k, &number, 4);
    } else if (is_quantized(tensor.type)) {
      bytes[k] = static_cast<std::byte>(static_cast<uint8_t>(unit * 256));
    } else {
      bytes[k * bits_of(tensor.type) / 8] =
          static_cast<std::byte>(tensor.type == DataType::kBool ? unit < 0.5 : unit * 3);
    }
  }
  value.data = make_constant(std::move(bytes));
  return value;
}

std::string trimmed(std::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    while (!line.empty() && line.front() == ' ') line.remove_prefix(1);
    while (!line.empty() && line.back() == ' ') line.remove_suffix(1);
    if (!line.empty()) result += std::string(line) + "\n";
    at = end + 1;
  }
  return result;
}

}  // namespace

std::string layer_lines(const Graph& graph) {
  static const std::regex kDeclaration(
      R"(: [a-z0-9]+\[[^\]]*\]( value \[[^\]]*\])?( range \[[^\]]*\])?( scale \[[^\]]*\])?( zero_point \[[^\]]*\])?( quantized_axis [0-9]+)?)");
  static const std::regex kProvenance(R"re( from "[^"]*"(, "[^"]*")*)re");
  std::string lines;
  const std::string text = trimmed(to_text(graph, true));
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    const size_t sign = line.find(" = ");
    if (line.starts_with("constant ") || line.starts_with("input ") || sign == std::string::npos)
      continue;
    const std::string left = std::regex_replace(line.substr(0, sign), kDeclaration, "");
    lines += left + std::regex_replace(line.substr(sign), kProvenance, "") + "\n";
  }
  return lines;
}

void expect_same_numbers(const Graph& before, const Graph& after, double tolerance,
                         int64_t symbol_extent) {
  std::vector<kernels::Value> inputs;
  for (const Tensor* input : before.inputs())
    inputs.push_back(random_value(*input, inputs.size() + 17, symbol_extent));
  const auto wanted = kernels::evaluate(before, inputs);
  const auto found = kernels::evaluate(after, inputs);
  ASSERT_TRUE(wanted.ok()) << wanted.status().message();
  ASSERT_TRUE(found.ok()) << found.status().message();
  ASSERT_EQ(wanted.value().size(), found.value().size());
  for (size_t k = 0; k < wanted.value().size(); ++k) {
    EXPECT_EQ(wanted.value()[k].extents, found.value()[k].extents);
    const std::vector<double> left = wanted.value()[k].to_doubles(),
                              right = found.value()[k].to_doubles();
    ASSERT_EQ(left.size(), right.size());
    double largest = 0;
    for (double v : left) largest = std::max(largest, std::abs(v));
    for (size_t n = 0; n < left.size(); ++n)
      ASSERT_NEAR(left[n], right[n], tolerance * std::max(largest, 1e-3))
          << "output " << k << ", element " << n;
  }
}

void expect_rewrite(PassFunction pass, std::string_view before, std::string_view after,
                    Records* records) {
  Result<std::unique_ptr<Graph>> original = parse_graph(before);
  ASSERT_TRUE(original.ok()) << original.status().message();
  ASSERT_TRUE(verify(*original.value()).ok()) << verify(*original.value()).message();
  std::unique_ptr<Graph> graph = std::move(parse_graph(before)).value();
  for (int round = 0; round < 10 && pass(*graph, records) > 0;) ++round;
  graph->remove_unused_tensors();
  const Status status = verify(*graph);
  ASSERT_TRUE(status.ok()) << status.message() << "\n" << to_text(*graph, true);
  EXPECT_EQ(layer_lines(*graph), trimmed(after));
  expect_same_numbers(*original.value(), *graph, 1e-5);
}

}  // namespace camshaft::passes
