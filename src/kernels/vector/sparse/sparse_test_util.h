// SPDX-License-Identifier: Apache-2.0
// What tests of sparse tactics share: convolutions of floats described by a spec, and outputs to
// compare bit by bit.
#pragma once

#include "kernels/vector/layer_test_util.h"

namespace camshaft::kernels::test {

inline uint32_t mixed(uint32_t h) {
  h = (h ^ 61u ^ (h >> 16)) * 9u;
  return (h ^ (h >> 4)) * 0x27d4eb2du ^ (h >> 15);
}

// Of a spec with such members.
template <class Spec>
int64_t out_extent(const Spec& s, int64_t in, int64_t kernel) {
  return (in + 2 * s.pad - (kernel - 1) * s.dilation - 1) / s.stride + 1;
}
template <class Spec>
ir::ConvolutionAttrs attrs_of(const Spec& s, int operands) {
  ir::ConvolutionAttrs attrs;
  attrs.kernel = {s.kh, s.kw};
  attrs.stride = {s.stride, s.stride};
  attrs.dilation = {s.dilation, s.dilation};
  attrs.pre_padding = attrs.post_padding = {s.pad, s.pad};
  attrs.groups = s.groups;
  if (*s.epilogue) attrs.epilogue = ir::parse_program(1 + operands, s.epilogue).value();
  return attrs;
}

struct FloatConv {
  int64_t batch = 1, ic = 16, ih = 5, iw = 6, oc = 20, kh = 1, kw = 1;
  int64_t stride = 1, dilation = 1, pad = 0, groups = 1;
  int64_t kept = 40;  // per cent of the weights, where there is no pattern
  uint32_t seed = 1;
  const char* epilogue = "";
  int residuals = 0;

  int64_t depth() const { return ic / groups * kh * kw; }
};
template <class Spec = FloatConv>
Spec square(int64_t ic, int64_t size, int64_t oc, int64_t kernel, int64_t stride = 1) {
  Spec s;
  s.ic = ic, s.ih = s.iw = size, s.oc = oc, s.kh = s.kw = kernel, s.stride = stride;
  s.pad = kernel / 2;
  return s;
}
inline std::string words_of(const FloatConv& s) {
  return words({s.batch, s.ic, s.ih, s.iw, s.oc, s.kh, s.kw, s.stride, s.dilation, s.pad, s.groups,
                s.kept, s.seed}) +
         s.epilogue;
}

// `weight`: of [oc][channels of a group][kh][kw].
inline TestLayer layer_of(const FloatConv& s, std::function<double(int64_t)> weight) {
  TestLayer test;
  test.layer = make_layer(ir::LayerKind::kConvolution, attrs_of(s, s.residuals));
  const Extents y = {s.batch, s.oc, out_extent(s, s.ih, s.kh), out_extent(s, s.iw, s.kw)};
  test.inputs.push_back({.extents = {s.batch, s.ic, s.ih, s.iw}});
  test.inputs.push_back({.extents = {s.oc, s.ic / s.groups, s.kh, s.kw},
                         .is_data = false,
                         .is_constant = true,
                         .value = std::move(weight)});
  test.inputs.push_back({.extents = {s.oc}, .is_data = false, .is_constant = true});
  for (int k = 0; k < s.residuals; ++k) test.inputs.push_back({.extents = y});
  test.outputs.push_back({.extents = y});
  return test;
}

// check(spec) for windows, strides, groups, dilations; `channels`: of the input.
template <class Check>
void for_each_window(std::initializer_list<int64_t> channels, const Check& check) {
  uint32_t seed = 100;
  for (const int64_t kernel : {2, 3, 5})
    for (const int64_t stride : {1, 2, 3})
      for (const int64_t ic : channels) {
        FloatConv s = square(ic, 9, 20, kernel, stride);
        s.seed = ++seed, s.batch = 2;
        check(s);
      }
  for (const int64_t groups : {2, 4}) {
    FloatConv s = square(32, 7, 24, 3);
    s.groups = groups, s.seed = ++seed;
    check(s);
    s.dilation = 2, s.pad = 2;
    check(s);
  }
  FloatConv wide = square(16, 20, 20, 3);  // taps outside are skipped
  wide.dilation = wide.pad = 9;
  check(wide);
  FloatConv beyond = square(16, 3, 20, 3);  // whole rows and columns of outputs see padding only
  beyond.pad = 5;
  check(beyond);
}

template <class Check>
void for_each_epilogue(const Check& check) {
  for (const char* epilogue :
       {"v1 = relu v0", "v1 = clip v0 -1 6", "v1 = silu v0 1", "v1 = leaky_relu v0 0.1",
        "v1 = const 3; v2 = mul v0 v1; v3 = relu v2"})
    for (const int64_t kernel : {1, 3}) {
      FloatConv s = square(24, 6, 37, kernel);
      s.epilogue = epilogue;
      check(s);
    }
  for (const int64_t kernel : {1, 3}) {
    FloatConv s = square(24, 6, 90, kernel);
    s.epilogue = "v2 = add v0 v1; v3 = relu v2", s.residuals = 1, s.batch = 2;
    check(s);
  }
}

// A product of `m` rows with 2:4 weights by the first tactic of the instruction set whose name
// begins so; nothing: none takes it.
inline std::vector<float> pruned_output(std::string_view name, int64_t m, int64_t n, int64_t k) {
  LayerCase layer = matmul_case(1, m, n, k, true, false);
  layer.prune_weights();
  return output_of(layer, ir::LayerKind::kMatrixMultiply, name);
}

}  // namespace camshaft::kernels::test
