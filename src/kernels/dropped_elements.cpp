// SPDX-License-Identifier: Apache-2.0
#include "kernels/dropped_elements.h"

#include "ir/generic_attributes.h"
#include "kernels/random_numbers.h"
#include "kernels/reference/access.h"

namespace camshaft::kernels {

uint32_t stated_seed(const ir::Layer& layer) {
  const auto& attrs = layer.as<ir::GenericAttrs>();
  const double whole = static_cast<double>(ir::integer_attribute(attrs, "seed", 0, 0));
  const double seed = ir::real_attribute(attrs, "seed", whole);
  return seed >= 0 && seed < 4294967296.0 ? static_cast<uint32_t>(seed) : 0;
}

double number_in(const TensorView& view) {
  return reference::load<double>(view)[0];
}

void drop_elements(const TensorView& x, double ratio, uint32_t seed, const TensorView& y,
                   const TensorView& mask) {
  RandomNumbers random(seed);
  std::vector<double> values = reference::load<double>(x);
  std::vector<int64_t> kept(values.size());
  for (size_t k = 0; k < values.size(); ++k) {
    kept[k] = random.uniform() >= ratio;
    values[k] = kept[k] ? values[k] / (1 - ratio) : 0;
  }
  reference::store(y, values);
  if (mask.data) reference::store(mask, kept);
}

}  // namespace camshaft::kernels
