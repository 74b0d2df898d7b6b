// SPDX-License-Identifier: Apache-2.0
// Names of layer kinds and enums; comparing attributes field by field.
#include "ir/attrs.h"

#include <cstring>

namespace camshaft::ir {
namespace {

constexpr std::string_view kKindNames[] = {
#define CAMSHAFT_KIND(kind, name, attrs) name,
    CAMSHAFT_LAYER_KINDS(CAMSHAFT_KIND)
#undef CAMSHAFT_KIND
};

// The name at the enum's value; empty beyond the table, which is how parse_enum() finds its end.
template <class E, size_t N>
std::string_view lookup(const std::string_view (&names)[N], E value) {
  const size_t index = static_cast<size_t>(value);
  return index < N ? names[index] : std::string_view();
}

template <class T>
bool same_value(const T& a, const T& b) {
  // Bits, not values: 0 and -0 are different attributes, and a NaN equals itself.
  if constexpr (std::is_floating_point_v<T>)
    return std::memcmp(&a, &b, sizeof(T)) == 0;
  else
    return a == b;
}

// Walks two structs of one type side by side.
template <class A>
bool same_fields(const A& a, const A& b) {
  std::vector<const void*> left;
  A::fields(a, [&](const char*, const auto& field) { left.push_back(&field); });
  size_t next = 0;
  bool same = true;
  A::fields(b, [&](const char*, const auto& field) {
    using Field = std::decay_t<decltype(field)>;
    same = same && same_value(*static_cast<const Field*>(left[next]), field);
    ++next;
  });
  return same;
}

}  // namespace

Attrs::Attrs() = default;
Attrs::Attrs(const Attrs&) = default;
Attrs::Attrs(Attrs&&) noexcept = default;
Attrs& Attrs::operator=(const Attrs&) = default;
Attrs& Attrs::operator=(Attrs&&) noexcept = default;
Attrs::~Attrs() = default;

std::string_view kind_name(LayerKind kind) {
  return lookup(kKindNames, kind);
}

Result<LayerKind> parse_kind(std::string_view name) {
  for (size_t k = 0; k < std::size(kKindNames); ++k)
    if (kKindNames[k] == name) return static_cast<LayerKind>(k);
  return make_error(ErrorCode::kInvalidArgument, "unknown layer kind '{}'", name);
}

Attrs default_attrs(LayerKind kind) {
  switch (kind) {
#define CAMSHAFT_KIND(kind, name, attrs) \
  case LayerKind::kind:                  \
    return attrs();
    CAMSHAFT_LAYER_KINDS(CAMSHAFT_KIND)
#undef CAMSHAFT_KIND
  }
  return NoAttrs();
}

bool equal(const Attrs& a, const Attrs& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&](const auto& left) {
        return same_fields(left, std::get<std::decay_t<decltype(left)>>(b));
      },
      a);
}

#define CAMSHAFT_ENUM_NAMES(Enum, ...)                          \
  std::string_view enum_name(Enum value) {                      \
    static constexpr std::string_view kNames[] = {__VA_ARGS__}; \
    return lookup(kNames, value);                               \
  }
CAMSHAFT_ENUM_NAMES(PaddingMode, "explicit", "explicit_round_up", "same_upper", "same_lower")
CAMSHAFT_ENUM_NAMES(PoolingType, "max", "average", "lp")
CAMSHAFT_ENUM_NAMES(ReduceOp, "sum", "mean", "max", "min", "prod", "l1", "l2", "log_sum",
                    "log_sum_exp", "sum_square")
CAMSHAFT_ENUM_NAMES(NormKind, "layer", "rms", "instance", "group")
CAMSHAFT_ENUM_NAMES(GatherMode, "default", "elements", "nd")
CAMSHAFT_ENUM_NAMES(ScatterMode, "elements", "nd")
CAMSHAFT_ENUM_NAMES(ScatterReduction, "none", "add", "mul", "min", "max")
CAMSHAFT_ENUM_NAMES(PadMode, "constant", "reflect", "edge", "wrap")
CAMSHAFT_ENUM_NAMES(ResizeMode, "nearest", "linear", "cubic")
CAMSHAFT_ENUM_NAMES(CoordinateTransform, "half_pixel", "pytorch_half_pixel", "align_corners",
                    "asymmetric", "half_pixel_symmetric", "tf_crop_and_resize")
CAMSHAFT_ENUM_NAMES(NearestRounding, "round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
CAMSHAFT_ENUM_NAMES(RnnKind, "rnn", "gru", "lstm")
CAMSHAFT_ENUM_NAMES(RnnDirection, "forward", "reverse", "bidirectional")
#undef CAMSHAFT_ENUM_NAMES

}  // namespace camshaft::ir
