// SPDX-License-Identifier: Apache-2.0
// Finds the reference kernel of a layer.
#include "kernels/reference/tables.h"

#include <map>

namespace camshaft::kernels {
namespace {

const std::map<ir::LayerKind, const ReferenceKernel*>& by_kind() {
  static const auto table = [] {
    std::map<ir::LayerKind, const ReferenceKernel*> all;
#define CAMSHAFT_COLLECT(file)                                    \
  for (const reference::KindRow& row : reference::file##_kinds()) \
    all.emplace(row.kind, &row.kernel);
    CAMSHAFT_REFERENCE_KINDS(CAMSHAFT_COLLECT)
#undef CAMSHAFT_COLLECT
    return all;
  }();
  return table;
}

const std::map<std::string_view, const ReferenceKernel*>& by_operator() {
  static const auto table = [] {
    std::map<std::string_view, const ReferenceKernel*> all;
#define CAMSHAFT_COLLECT(file)                                           \
  for (const reference::GenericRow& row : reference::file##_operators()) \
    all.emplace(row.op_type, &row.kernel);
    CAMSHAFT_REFERENCE_GENERIC(CAMSHAFT_COLLECT)
#undef CAMSHAFT_COLLECT
    return all;
  }();
  return table;
}

}  // namespace

const ReferenceKernel* reference_kernel(const ir::Layer& layer) {
  if (layer.kind == ir::LayerKind::kGeneric) {
    const auto found = by_operator().find(layer.as<ir::GenericAttrs>().op_type);
    return found == by_operator().end() ? nullptr : found->second;
  }
  const auto found = by_kind().find(layer.kind);
  return found == by_kind().end() ? nullptr : found->second;
}

bool has_generic_kernel(std::string_view op_type) {
  return by_operator().contains(op_type);
}

}  // namespace camshaft::kernels
