// SPDX-License-Identifier: Apache-2.0
#include "ir/kind_traits.h"

#include <variant>

#include "ir/infer_internal.h"
#include "ir/verify_internal.h"

namespace camshaft::ir {
namespace {

using enum LayerKind;
using enum Elements;
using enum Movement;
using enum Images;
using enum EpilogueOn;
using enum DataInputs;
using enum Storage;
using enum Widening;
using enum ExtentsAre;
using enum Deed;

constexpr int kAny = kAnyNumber;

// clang-format off
// arity: required and most inputs, least and most outputs, bodies.
constexpr KindTraits kTraits[] = {
    // kind           arity                  infer                  check                  elements    movement    images     epilogue       data inputs   storage  widening  extents     deed
    {kConvolution,    {2, kAny, 1, 1, 0},    infer_convolution,     check_convolution,     kMixed,     kComputes,  kAlone,    {kResult, 3},  kAndEpilogue, kAny16,  kWhole,   kInferred,  kSlides},
    {kDeconvolution,  {2, kAny, 1, 1, 0},    infer_deconvolution,   check_convolution,     kMixed,     kComputes,  kAlone,    {kResult, 3},  kAndEpilogue, kFloat,  kWhole,   kInferred,  kSlides},
    {kMatrixMultiply, {2, kAny, 1, 1, 0},    infer_matrix_multiply, check_matrix_multiply, kMixed,     kComputes,  kTogether, {kResult, 3},  kFirst,       kAny16,  kWhole,   kInferred,  kMultiplies},
    {kLowBitMultiply, {2, kAny, 1, 1, 0},    infer_low_bits,        check_low_bits,        kMixed,     kComputes,  kTogether, {kResult, 3},  kFirst,       kFloat,  kNever,   kInferred,  kMultiplies},
    {kExperts,        {5, 7, 1, 1, 0},       infer_experts,         check_experts,         kMixed,     kComputes,  kTogether, {kNothing, 0}, kFirst,       kFloat,  kNever,   kInferred,  kMixes},
    {kPooling,        {1, kAny, 1, 2, 0},    infer_pooling,         check_pooling,         kMixed,     kSelects,   kAlone,    {kResult, 1},  kAndEpilogue,  kAll16,  kWhole,   kInferred,  kSlides},
    {kActivation,     {1, 1, 1, 1, 0},       infer_unary,           check_point_op,        kPointwise, kComputes,  kAlone,    {kNothing, 0}, kEvery,       kAny16,  kWhole,   kInferred,  kMaps},
    {kUnary,          {1, 1, 1, 1, 0},       infer_unary,           check_point_op,        kPointwise, kComputes,  kAlone,    {kNothing, 0}, kEvery,       kAny16,  kWhole,   kInferred,  kMaps},
    {kElementWise,    {2, 2, 1, 1, 0},       infer_elementwise,     check_point_op,        kPointwise, kComputes,  kAlone,    {kNothing, 0}, kEvery,       kAny16,  kWhole,   kInferred,  kMaps},
    {kSelect,         {3, 3, 1, 1, 0},       infer_select,          check_point_op,        kPointwise, kComputes,  kTogether, {kNothing, 0}, kEvery,       kFloat,  kWhole,   kInferred,  kMaps},
    {kScale,          {3, 3, 1, 1, 0},       infer_scale,           check_scale,           kPointwise, kComputes,  kTogether, {kNothing, 0}, kFirst,       kAny16,  kWhole,   kInferred,  kMaps},
    {kPointWise,      {1, kAny, 1, 1, 0},    infer_pointwise,       check_pointwise,       kPointwise, kComputes,  kAlone,    {kNothing, 0}, kEvery,       kAny16,  kNever,   kInferred,  kMaps},
    {kShuffle,        {1, 2, 1, 1, 0},       infer_shuffle,         check_shuffle,         kMixed,     kMovesAll,  kTogether, {kNothing, 0}, kFirst,       kAll16,  kWhole,   kOfNumbers, kRearranges},
    {kSlice,          {1, 5, 1, 1, 0},       infer_slice,           check_slice,           kMixed,     kMovesSome, kTogether, {kNothing, 0}, kFirst,       kAll16,  kWhole,   kOfNumbers, kRearranges},
    {kPad,            {1, 4, 1, 1, 0},       infer_pad,             check_pad,             kMixed,     kPads,      kTogether, {kNothing, 0}, kFirst,       kFloat,  kWhole,   kOfNumbers, kRearranges},
    {kConcatenation,  {1, kAny, 1, 1, 0},    infer_concatenation,   check_concatenation,   kMixed,     kComputes,  kByAxis,   {kNothing, 0}, kEvery,       kAll16,  kWhole,   kInferred,  kRearranges},
    {kReduce,         {1, 2, 1, 1, 0},       infer_reduce,          check_reduce,          kMixed,     kComputes,  kTogether, {kNothing, 0}, kFirst,       kAll16,  kWhole,   kOfNumbers, kReduces},
    {kSoftMax,        {1, 1, 1, 1, 0},       infer_softmax,         check_softmax,         kMixed,     kComputes,  kTogether, {kNothing, 0}, kFirst,       kAll16,  kWhole,   kInferred,  kReduces},
    {kAttention,      {3, kAny, 1, 1, 0},    infer_attention,       check_attention,       kMixed,     kComputes,  kTogether, {kScores, 4},  kFirst,       kFloat,  kWhole,   kInferred,  kAttends},
    {kNormalization,  {1, kAny, 1, 1, 0},    infer_normalization,   check_epilogue,        kMixed,     kComputes,  kTogether, {kResult, 3},  kAndEpilogue, kAll16,  kWhole,   kInferred,  kNormalizes},
    {kGather,         {2, 2, 1, 1, 0},       infer_gather,          check_gather,          kMixed,     kMovesSome, kTogether, {kNothing, 0}, kFirst,       kFloat,  kWhole,   kInferred,  kLooksUp},
    {kScatter,        {3, 3, 1, 1, 0},       infer_scatter,         check_nothing,         kMixed,     kComputes,  kTogether, {kNothing, 0}, kFirst,       kFloat,  kWhole,   kInferred,  kRearranges},
    {kResize,         {1, 4, 1, 1, 0},       infer_resize,          check_nothing,         kMixed,     kSelects,   kAlone,    {kNothing, 0}, kFirst,       kAll16,  kWhole,   kOfNumbers, kSlides},
    {kCast,           {1, 1, 1, 1, 0},       infer_cast,            check_nothing,         kConverted, kComputes,  kAlone,    {kNothing, 0}, kFirst,       kFloat,  kNever,   kInferred,  kMaps},
    {kExpand,         {1, 2, 1, 1, 0},       infer_expand,          check_nothing,         kMixed,     kMovesAll,  kTogether, {kNothing, 0}, kFirst,       kFloat,  kWhole,   kOfNumbers, kRearranges},
    {kTile,           {1, 2, 1, 1, 0},       infer_tile,            check_nothing,         kMixed,     kMovesAll,  kTogether, {kNothing, 0}, kFirst,       kFloat,  kWhole,   kOfNumbers, kRearranges},
    {kFill,           {0, 1, 1, 1, 0},       infer_fill,            check_nothing,         kMixed,     kComputes,  kTogether, {kNothing, 0}, kFirst,       kFloat,  kNever,   kOfNumbers, kRearranges},
    {kShapeOf,        {1, 1, 1, 1, 0},       infer_shape_of,        check_nothing,         kMixed,     kComputes,  kTogether, {kNothing, 0}, kFirst,       kFloat,  kInputs,  kInferred,  kRearranges},
    {kTopK,           {2, 2, 1, 2, 0},       infer_topk,            check_nothing,         kMixed,     kComputes,  kTogether, {kNothing, 0}, kFirst,       kFloat,  kWhole,   kOfNumbers, kSearches},
    {kArgMinMax,      {1, 1, 1, 1, 0},       infer_arg_min_max,     check_nothing,         kMixed,     kComputes,  kTogether, {kNothing, 0}, kFirst,       kFloat,  kInputs,  kInferred,  kSearches},
    {kCumSum,         {2, 2, 1, 1, 0},       infer_cumsum,          check_nothing,         kMixed,     kComputes,  kTogether, {kNothing, 0}, kFirst,       kFloat,  kWhole,   kInferred,  kReduces},
    {kRange,          {3, 3, 1, 1, 0},       infer_range,           check_nothing,         kMixed,     kComputes,  kTogether, {kNothing, 0}, kFirst,       kFloat,  kNever,   kOfNumbers, kRearranges},
    {kNonZero,        {1, 1, 1, 1, 0},       infer_nonzero,         check_nothing,         kMixed,     kComputes,  kTogether, {kNothing, 0}, kFirst,       kFloat,  kNever,   kFound,     kSearches},
    {kRecurrence,     {3, 12, 1, 3, 0},      infer_recurrence,      check_nothing,         kMixed,     kComputes,  kTogether, {kNothing, 0}, kFirst,       kFloat,  kWhole,   kInferred,  kRepeats},
    {kQuantize,       {2, 3, 1, 1, 0},       infer_quantize,        check_nothing,         kMixed,     kComputes,  kTogether, {kNothing, 0}, kFirst,       kFloat,  kNever,   kInferred,  kMaps},
    {kDequantize,     {2, 3, 1, 1, 0},       infer_dequantize,      check_nothing,         kMixed,     kComputes,  kTogether, {kNothing, 0}, kFirst,       kFloat,  kNever,   kInferred,  kMaps},
    {kDepthToSpace,   {1, 1, 1, 1, 0},       infer_depth_to_space,  check_nothing,         kMixed,     kMovesAll,  kTogether, {kNothing, 0}, kFirst,       kAll16,  kWhole,   kInferred,  kSlides},
    {kSpaceToDepth,   {1, 1, 1, 1, 0},       infer_space_to_depth,  check_nothing,         kMixed,     kMovesAll,  kTogether, {kNothing, 0}, kFirst,       kAll16,  kWhole,   kInferred,  kSlides},
    {kIf,             {1, kAny, 1, kAny, 2}, infer_if,              check_nothing,         kMixed,     kComputes,  kTogether, {kNothing, 0}, kFirst,       kFloat,  kNever,   kFound,     kBranches},
    {kLoop,           {0, kAny, 0, kAny, 1}, infer_loop,            check_nothing,         kMixed,     kComputes,  kTogether, {kNothing, 0}, kFirst,       kFloat,  kNever,   kFound,     kBranches},
    {kScan,           {0, kAny, 0, kAny, 1}, infer_scan,            check_nothing,         kMixed,     kComputes,  kTogether, {kNothing, 0}, kFirst,       kFloat,  kNever,   kFound,     kBranches},
    {kReformat,       {1, 1, 1, 1, 0},       infer_same,            check_nothing,         kMixed,     kMovesAll,  kAlone,    {kNothing, 0}, kFirst,       kFloat,  kNever,   kInferred,  kRearranges},
    {kGeneric,        {0, kAny, 0, kAny, 0}, infer_generic,         check_nothing,         kMixed,     kComputes,  kTogether, {kNothing, 0}, kFirst,       kFloat,  kNamed,   kFound,     kUnnamed},
};
// clang-format on

constexpr bool has_a_row_for_every_kind() {
  constexpr LayerKind kKinds[] = {
#define CAMSHAFT_KIND(kind, name, attrs) LayerKind::kind,
      CAMSHAFT_LAYER_KINDS(CAMSHAFT_KIND)
#undef CAMSHAFT_KIND
  };
  if (std::size(kTraits) != kLayerKinds) return false;
  for (size_t k = 0; k < kLayerKinds; ++k)
    if (kTraits[k].kind != kKinds[k]) return false;
  return true;
}
static_assert(has_a_row_for_every_kind(), "one row per kind, in the order of CAMSHAFT_LAYER_KINDS");

template <class Attributes>
auto* slot_of(Attributes& attrs) {
  return std::visit(
      [](auto& a) -> std::conditional_t<std::is_const_v<Attributes>, const Program, Program>* {
        if constexpr (requires { a.epilogue; })
          return &a.epilogue;
        else
          return nullptr;
      },
      attrs);
}

}  // namespace

const KindTraits& traits_of(LayerKind kind) {
  return kTraits[static_cast<size_t>(kind)];
}

Program* epilogue_of(Layer& layer, EpilogueOn on) {
  return traits_of(layer.kind).epilogue.on == on ? slot_of(layer.attrs) : nullptr;
}

const Program* epilogue_of(const Layer& layer, EpilogueOn on) {
  return traits_of(layer.kind).epilogue.on == on ? slot_of(layer.attrs) : nullptr;
}

bool gives_indices(const Layer& pooling) {
  return pooling.outputs.size() > 1 && pooling.outputs[1];
}

bool always_moves(LayerKind kind) {
  const Movement movement = traits_of(kind).movement;
  return movement == kMovesAll || movement == kMovesSome;
}

bool moves_elements(const Layer& layer) {
  switch (traits_of(layer.kind).movement) {
    case kMovesAll:
    case kMovesSome:
      return true;
    case kPads:
      return layer.inputs.size() == 1;  // amounts and value are attributes
    case kSelects:
      if (const auto* resize = std::get_if<ResizeAttrs>(&layer.attrs))
        return resize->mode == ResizeMode::kNearest &&
               resize->transform != CoordinateTransform::kTfCropAndResize;
      return layer.as<PoolingAttrs>().type == PoolingType::kMax &&
             layer.as<PoolingAttrs>().epilogue.empty() && !gives_indices(layer);
    case kComputes:
      break;
  }
  return false;
}

bool may_leave_out(LayerKind kind) {
  const Movement movement = traits_of(kind).movement;
  return movement == kMovesSome || movement == kSelects;
}

}  // namespace camshaft::ir
