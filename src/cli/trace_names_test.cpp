// SPDX-License-Identifier: Apache-2.0
#include "cli/trace_names.h"

#include <gtest/gtest.h>

#include <set>

#include "cli/terminal.h"

namespace camshaft::cli {
namespace {

const std::string kCopy =
    "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::"
    "direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}>(int)>(int, float*)";
const std::string kAdd =
    "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::"
    "CUDAFunctor_add<c10::BFloat16> >(int)>(int, float*)";
const std::string kOther =
    "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<at::native::"
    "BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> > >(int)>()";

TEST(TraceNames, TemplateArgumentsGoFirst) {
  EXPECT_EQ(short_kernel_name("attn_fwd", 20), "attn_fwd");
  EXPECT_EQ(short_kernel_name("void reduce<a<b<c>, d>, e>(int, float)", 20), "reduce<a<…>, e>");
  EXPECT_EQ(short_kernel_name("void reduce<a<b<c>, d>, e>(int, float)", 11), "reduce<…>");
  EXPECT_EQ(short_kernel_name(kCopy, 0), kCopy);
  for (const size_t width : {12, 30, 60, 100})
    EXPECT_LE(display_width(short_kernel_name(kCopy, width)), width);
}

TEST(TraceNames, DifferentKernelsLookDifferent) {
  for (const size_t width : {40, 60, 90}) {
    const auto shown = short_kernel_names({kCopy, kAdd, kOther, kCopy}, width);
    EXPECT_EQ(std::set<std::string>(shown.begin(), shown.end()).size(), 3u) << shown[0];
    EXPECT_EQ(shown[0], shown[3]);
    for (const std::string& name : shown) EXPECT_LE(display_width(name), width) << name;
  }
}

TEST(TraceNames, SentencesWrapAtBlanks) {
  EXPECT_EQ(wrapped("one two three four five six seven eight", 26, 2),
            "one two three four five\n  six seven eight");
  EXPECT_EQ(wrapped("one two", 0, 2), "one two");
}

}  // namespace
}  // namespace camshaft::cli
