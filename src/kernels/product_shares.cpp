// SPDX-License-Identifier: Apache-2.0
#include "kernels/product_shares.h"

#include <fmt/format.h>

#include <utility>

namespace camshaft::kernels {

std::string ProductShares::text() const {
  const std::pair<const char*, int64_t> parts[] = {
      {"vnni", vnni}, {"chain4", chain4}, {"chain2", chain2}, {"single", single}, {"s16", words}};
  int64_t all = 0;
  for (const auto& [name, count] : parts) all += count;
  std::string text;
  for (const auto& [name, count] : parts)
    if (count * 200 >= all && count > 0)
      text += fmt::format("{} {} {:.0f} %", text.empty() ? "int8" : ",", name,
                          100 * static_cast<double>(count) / static_cast<double>(all));
  return text;
}

}  // namespace camshaft::kernels
