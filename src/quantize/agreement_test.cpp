// SPDX-License-Identifier: Apache-2.0
#include "quantize/agreement.h"

#include <gtest/gtest.h>

namespace camshaft::quantize {
namespace {

TEST(Agreement, OfClassifiersIsTheLargestElement) {
  std::vector<float> a(20, 0.0F), b(20, 0.0F);
  a[3] = b[3] = 1;    // the first image's class is the same
  a[12] = b[15] = 1;  // the second one's is not
  AgreementCounter counter;
  counter.add(std::vector<OutputPair>{OutputPair{"y", {2, 10}, a, b}});
  counter.add(std::vector<OutputPair>{OutputPair{"y", {2, 10, 1, 1}, b, b}});
  const auto list = counter.take();
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].rows, 4);
  EXPECT_EQ(list[0].same, 3);
  EXPECT_EQ(list[0].text(), "y: the largest of 10 elements is the same in 3 of 4 rows (top-1)");
}

// Few elements are classes where they are probabilities.
TEST(Agreement, OfFewClassesIsThatOfProbabilities) {
  const std::vector<float> a{0.7F, 0.2F, 0.1F}, b{0.3F, 0.6F, 0.1F}, scores{7, 2, 1};
  AgreementCounter counter;
  counter.add(
      std::vector<OutputPair>{OutputPair{"y", {1, 3}, a, a}, OutputPair{"z", {1, 3}, a, scores}});
  counter.add(std::vector<OutputPair>{OutputPair{"y", {1, 3}, b, a}});
  const auto list = counter.take();
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].text(), "y: the largest of 3 elements is the same in 1 of 2 rows (top-1)");
}

// Boxes as [1, boxes, 4 + scores] and transposed.
TEST(Agreement, OfDetectorsIsTheConfidentBoxes) {
  for (const bool transposed : {false, true}) {
    constexpr size_t kBoxes = 60, kColumns = 7;
    std::vector<float> a(kBoxes * kColumns, 0.0F);
    const auto at = [&](size_t box, size_t column) {
      return transposed ? column * kBoxes + box : box * kColumns + column;
    };
    // Scores of rows are an object's and the classes'; of columns those of classes alone.
    for (size_t box = 0; box < kBoxes; ++box) {
      a[at(box, 0)] = 100;
      if (!transposed) a[at(box, 4)] = 0.9F;
    }
    if (!transposed) a[at(8, 4)] = 0.1F;
    a[at(5, 5)] = 0.9F;
    a[at(6, 6)] = 0.8F;
    a[at(7, 6)] = 0.2F;                   // below the bound
    if (!transposed) a[at(8, 5)] = 0.9F;  // a class of what is no object
    std::vector<float> b = a;
    b[at(5, 0)] = 98;    // two percent off
    b[at(6, 6)] = 0.1F;  // lost
    b[at(7, 6)] = 0;
    AgreementCounter counter;
    const ir::Extents extents =
        transposed ? ir::Extents{1, kColumns, kBoxes} : ir::Extents{1, kBoxes, kColumns};
    counter.add(std::vector<OutputPair>{OutputPair{"boxes", extents, b, a}});
    const auto list = counter.take();
    ASSERT_EQ(list.size(), 1u);
    EXPECT_EQ(list[0].kind, Agreement::Kind::kBoxes);
    EXPECT_EQ(list[0].rows, 2);
    EXPECT_EQ(list[0].same, 1);
    EXPECT_NEAR(list[0].coordinate_error, 0.02, 1e-6);
  }
}

TEST(Agreement, OtherOutputsAreLeftAlone) {
  const std::vector<float> values(3 * 32 * 32, 0.5F), few(8, 1.0F);
  AgreementCounter counter;
  counter.add(std::vector<OutputPair>{OutputPair{"image", {1, 3, 32, 32}, values, values},
                                      OutputPair{"few", {1, 8}, few, few},
                                      OutputPair{"boxes", {2, 4}, few, few}});
  EXPECT_TRUE(counter.take().empty());
}

}  // namespace
}  // namespace camshaft::quantize
