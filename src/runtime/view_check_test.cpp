// SPDX-License-Identifier: Apache-2.0
#include "runtime/view_check.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "runtime/fence.h"

namespace camshaft::runtime {
namespace {

using kernels::TensorView;

struct Views : testing::Test {
  std::vector<float> memory = std::vector<float>(24);
  MemoryRange room{reinterpret_cast<const std::byte*>(memory.data()), 24 * sizeof(float)};
  TensorView view = kernels::make_view(memory.data(), ir::DataType::kFloat, ir::Format::kLinear,
                                       std::vector<int64_t>{2, 3, 4});
};

TEST_F(Views, InsideTheirMemory) {
  EXPECT_TRUE(check_view(view, room).ok());
  view.extents[2] = 2;  // a part along the last axis
  view.data = memory.data() + 2;
  EXPECT_TRUE(check_view(view, room).ok());
  view.data = memory.data() + 23;  // backwards
  for (int64_t& stride : view.strides) stride = -stride;
  EXPECT_TRUE(check_view(view, room).ok());
}

TEST_F(Views, OutsideTheirMemory) {
  view.data = memory.data() + 1;
  EXPECT_NE(check_view(view, room).message().find("bytes 4 to 100 of 96"), std::string::npos)
      << check_view(view, room).message();
  view.data = memory.data();
  view.strides[0] = 13;
  EXPECT_FALSE(check_view(view, room).ok());
  view.strides[0] = -12;
  EXPECT_FALSE(check_view(view, room).ok());
  view.data = nullptr;
  EXPECT_NE(check_view(view, room).message().find("no memory"), std::string::npos);
}

TEST_F(Views, WithoutElementsNeedNone) {
  view.extents[1] = 0;
  view.data = nullptr;
  EXPECT_TRUE(check_view(view, {}).ok());
  EXPECT_TRUE(check_view(TensorView(), {}).ok());
}

TEST_F(Views, FencedCopiesEndAtAPage) {
  memory[23] = 5;
  for (const bool at_start : {false, true}) {
    const Fence fence(room, alignof(float), at_start);
    auto* copy = reinterpret_cast<float*>(fence.data());
    EXPECT_EQ(copy[23], at_start ? 6 : 5);
    copy[23] = 6;
    fence.copy_back();
    EXPECT_EQ(memory[23], 6);
    volatile std::byte* outside = fence.data() + (at_start ? -1 : 96);
    EXPECT_DEATH(*outside = std::byte{1}, "");
  }
}

}  // namespace
}  // namespace camshaft::runtime
