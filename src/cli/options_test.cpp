// SPDX-License-Identifier: Apache-2.0
#include "cli/options.h"

#include <gtest/gtest.h>

namespace camshaft::cli {
namespace {

constexpr OptionRow kRows[] = {
    {"onnx", OptionValue::kText, "FILE", "", "Model", OptionStatus::kWorks, "the model"},
    {"iterations", OptionValue::kInteger, "N", "10", "Inference", OptionStatus::kWorks, "runs", "",
     'n', 0},
    {"duration", OptionValue::kNumber, "S", "3", "Inference", OptionStatus::kWorks, "seconds"},
    {"verbose", OptionValue::kNone, "", "", "Reporting", OptionStatus::kWorks, "talk"},
    {"infStreams", OptionValue::kInteger, "N", "1", "Inference", OptionStatus::kWorks, "contexts",
     "", 0, 1},
    {"streams", OptionValue::kInteger, "N", "", "Inference", OptionStatus::kWorks, "",
     "infStreams"},
    {"sparsity", OptionValue::kChoice, "disable|enable", "disable", "Build", OptionStatus::kWorks,
     "2:4"},
    {"int8", OptionValue::kNone, "", "", "Build", OptionStatus::kLater, "quantized tactics"},
    {"uff", OptionValue::kText, "FILE", "", "Model", OptionStatus::kRemoved, "convert to ONNX"},
};

Result<Options> parse(std::vector<std::string> words, OptionSyntax syntax = {true, 0}) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  return Options::parse(kRows, pointers, syntax);
}

std::string error(std::vector<std::string> words, OptionSyntax syntax = {true, 0}) {
  return parse(std::move(words), syntax).status().message();
}

TEST(Options, ValuesDefaultsAndAliases) {
  auto options =
      parse({"--onnx=a=b.onnx", "--verbose", "--streams=3", "--duration=-1.5", "--onnx=c"});
  ASSERT_TRUE(options.ok()) << options.status().message();
  EXPECT_EQ(options->text("onnx"), "c");
  EXPECT_EQ(options->all("onnx"), (std::vector<std::string>{"a=b.onnx", "c"}));
  EXPECT_TRUE(options->has("verbose"));
  EXPECT_EQ(options->integer("infStreams"), 3);
  EXPECT_EQ(options->number("duration"), -1.5);
  EXPECT_EQ(options->integer("iterations"), 10);
  EXPECT_FALSE(options->has("iterations"));
  EXPECT_EQ(options->given()[2].spelling, "--streams");
}

TEST(Options, ErrorsAreShortAndNameTheOption) {
  EXPECT_EQ(error({"--onx=a"}), "unknown option --onx; did you mean --onnx?");
  EXPECT_EQ(error({"--Verbose"}), "unknown option --Verbose; did you mean --verbose?");
  EXPECT_EQ(error({"--somethingelse"}), "unknown option --somethingelse");
  EXPECT_EQ(error({"--iterations=ten"}), "--iterations: 'ten' is not a whole number");
  EXPECT_EQ(error({"--iterations=1.5"}), "--iterations: '1.5' is not a whole number");
  EXPECT_EQ(error({"--iterations=-1"}), "--iterations: -1 is below 0");
  EXPECT_EQ(error({"--duration=nan"}), "--duration: 'nan' is not a number");
  EXPECT_EQ(error({"--verbose=1"}), "--verbose takes no value");
  EXPECT_EQ(error({"--onnx", "x"}), "--onnx needs a value: --onnx=FILE");
  EXPECT_EQ(error({"--sparsity=yes"}), "--sparsity: 'yes' is not one of disable|enable");
  EXPECT_EQ(error({"model.onnx"}),
            "unexpected argument 'model.onnx'; options are written --name=value");
  EXPECT_EQ(error({"--int8"}), "--int8 is not in this version: quantized tactics");
  EXPECT_EQ(error({"--uff=x"}), "--uff was removed: convert to ONNX");
}

TEST(Options, FriendlySyntax) {
  auto options = parse({"m.onnx", "-n", "4", "--onnx", "x", "--", "--verbose"}, {false, 2});
  ASSERT_TRUE(options.ok()) << options.status().message();
  EXPECT_EQ(options->positionals(), (std::vector<std::string>{"m.onnx", "--verbose"}));
  EXPECT_EQ(options->integer("iterations"), 4);
  EXPECT_EQ(options->text("onnx"), "x");
  EXPECT_EQ(error({"a", "b", "c"}, {false, 2}), "unexpected argument 'c'");
  EXPECT_EQ(error({"-z"}, {false, 2}), "unknown option -z");
  EXPECT_EQ(parse({"-n12"}, {false, 2})->integer("iterations"), 12);
  EXPECT_EQ(parse({"-n=12"}, {false, 2})->integer("iterations"), 12);
  EXPECT_EQ(error({"-nx"}, {false, 2}), "-n: 'x' is not a whole number");
}

TEST(Options, HelpListsEverySectionOnce) {
  const std::string help = options_help(kRows);
  EXPECT_NE(help.find("=== Model ===\n  --onnx=FILE"), std::string::npos) << help;
  EXPECT_EQ(help.find("--uff"), std::string::npos);
  EXPECT_NE(help.find("the same as --infStreams"), std::string::npos);
  EXPECT_NE(help.find("[not in this version] quantized tactics"), std::string::npos);
  EXPECT_NE(help.find("runs (default 10)"), std::string::npos);
}

TEST(Options, HelpIsNoWiderThanAsked) {
  static constexpr OptionRow kLong[] = {
      {"short", OptionValue::kNone, "", "", "A", OptionStatus::kWorks,
       "a text that is much longer than what fits into one line of fifty columns, so it is broken"},
      {"aVeryLongNameThatStandsInALineOfItsOwn", OptionValue::kText, "FILE", "", "A",
       OptionStatus::kNoEffect, "there is nothing to do"}};
  const std::string help = options_help(kLong, 50);
  EXPECT_NE(help.find("\n           fits into one line"), std::string::npos) << help;
  EXPECT_NE(help.find("=FILE\n           [no effect here] there"), std::string::npos) << help;
  for (size_t at = 0; at < help.size();) {
    const size_t end = help.find('\n', at);
    EXPECT_LE(end - at, 50u) << help.substr(at, end - at);
    at = end + 1;
  }
}

TEST(Options, SplittingRespectsQuotes) {
  EXPECT_EQ(split_outside_quotes("'a:b':1,c:2", ','), (std::vector<std::string>{"'a:b':1", "c:2"}));
  EXPECT_EQ(split_outside_quotes("'a,b':1", ':'), (std::vector<std::string>{"'a,b'", "1"}));
  EXPECT_EQ(unquoted("'a:b'"), "a:b");
  EXPECT_EQ(unquoted("\"x"), "\"x");
}

}  // namespace
}  // namespace camshaft::cli
