// SPDX-License-Identifier: Apache-2.0
// The numbers of forms: one, or one per channel.
#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/epilogue/epilogue_form.h"

namespace camshaft::kernels {

// Infinities bound nothing that is an integer otherwise.
inline bool is_integral(double value) {
  return std::isinf(value) || value == std::nearbyint(value);
}

inline double first_of(double value) {
  return value;
}
inline double first_of(const ChannelValues& values) {
  return values[0];
}
inline bool is_one(double) {
  return true;
}
inline bool is_one(const ChannelValues& values) {
  return values.size() == 1;
}
inline bool is_all(double value, double wanted) {
  return value == wanted;
}
inline bool is_all(const ChannelValues& values, double wanted) {
  return values.size() == 1 && values[0] == wanted;
}
inline bool are_positive(double value) {
  return value > 0;
}
inline bool are_positive(const ChannelValues& values) {
  return std::all_of(values.begin(), values.end(), [](double v) { return v > 0; });
}
template <class F>
void combine(double& to, double with, F f) {
  to = f(to, with);
}
template <class F>
void combine(ChannelValues& to, const ChannelValues& with, F f) {
  if (to.size() == 1 && with.size() > 1) to.assign(with.size(), to[0]);
  for (size_t k = 0; k < to.size(); ++k) to[k] = f(to[k], with[with.size() == 1 ? 0 : k]);
}

template <class Numbers>
Numbers made_of(double value) {
  return Numbers{value};
}
template <class Numbers>
Numbers inverse_of(Numbers values) {
  combine(values, made_of<Numbers>(1), [](double v, double one) { return one / v; });
  return values;
}
inline constexpr auto kTimes = [](double a, double b) { return a * b; };
inline constexpr auto kPlus = [](double a, double b) { return a + b; };

}  // namespace camshaft::kernels
