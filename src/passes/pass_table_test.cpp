// SPDX-License-Identifier: Apache-2.0
// A pass has one name: its row, its function, its file, what it logs and its documentation agree.
#include "passes/pass_table.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

namespace camshaft::passes {
namespace {

// Tests run in the project's folder.
std::string read(const std::filesystem::path& file) {
  std::ifstream stream(file);
  EXPECT_TRUE(stream) << file;
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

std::string source_of(const Pass& pass) {
  return read("src/passes/" + std::string(pass.file) + ".cpp");
}

std::string plain(std::string_view name) {
  std::string result;
  for (const char c : name)
    if (c != '_') result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

// Names of passes that a source gives its rewriters.
std::set<std::string> logged_names(const std::string& source) {
  static const std::regex kName(
      R"re((?:Rewriter(?: \w+)?\((?:graph|body), |rewriter_\(graph, |records, |additions\(graph, |weights_into\(graph, |return |\? |: )"([A-Z]\w*[a-z]\w*)")re");
  std::set<std::string> names;
  for (std::sregex_iterator it(source.begin(), source.end(), kName), end; it != end; ++it)
    names.insert((*it)[1]);
  return names;
}

TEST(PassTable, FunctionIsTheNameAndStandsInItsFile) {
  for (const Pass& pass : all_passes()) {
    EXPECT_EQ(plain(pass.name), plain(pass.function));
    EXPECT_NE(source_of(pass).find("\nint " + std::string(pass.function) + "(Graph& graph"),
              std::string::npos)
        << pass.file << ".cpp has no " << pass.function;
  }
}

TEST(PassTable, NamesAndFunctionsAreUnique) {
  std::set<std::string_view> names;
  std::set<PassFunction> functions;
  for (const Pass& pass : all_passes()) {
    EXPECT_TRUE(names.insert(pass.name).second) << pass.name;
    EXPECT_TRUE(functions.insert(pass.run).second) << pass.name;
  }
}

TEST(PassTable, LogsItsNameAndNoOther) {
  std::map<std::string_view, std::set<std::string>> allowed;
  for (const Pass& pass : all_passes()) {
    allowed[pass.file].insert(std::string(pass.name));
    allowed[pass.file].insert(pass.also_logs.begin(), pass.also_logs.end());
  }
  for (const Pass& pass : all_passes()) {
    const std::string source = source_of(pass);
    for (const std::string& name : logged_names(source))
      EXPECT_TRUE(allowed[pass.file].count(name)) << pass.file << ".cpp logs " << name;
    for (const std::string_view name : pass.also_logs)
      EXPECT_NE(source.find('"' + std::string(name) + '"'), std::string::npos)
          << pass.file << ".cpp never logs " << name;
    if (!pass.also_logs.empty()) continue;
    EXPECT_NE(source.find('"' + std::string(pass.name) + '"'), std::string::npos)
        << pass.file << ".cpp never logs " << pass.name;
  }
}

TEST(PassTable, TheHeadOfItsFileAndTheDocumentationNameIt) {
  const std::string docs = read("docs/passes.md");
  for (const Pass& pass : all_passes()) {
    const std::string name(pass.name), source = source_of(pass);
    EXPECT_NE(source.substr(0, source.find("#include")).find(name), std::string::npos)
        << pass.file << ".cpp";
    EXPECT_NE(docs.find(name), std::string::npos) << name << " is not in docs/passes.md";
  }
}

// Whoever adds a pass adds its row.
TEST(PassTable, EveryDeclaredPassHasARow) {
  static const std::regex kDeclaration(R"(\nint (\w+)\(ir::Graph& graph, Records\* records\);)");
  const std::string header = read("src/passes/passes.h");
  std::set<std::string> declared, rows = {"widen_floats_strictly"};  // not in the pipeline
  for (std::sregex_iterator it(header.begin(), header.end(), kDeclaration), end; it != end; ++it)
    declared.insert((*it)[1]);
  for (const Pass& pass : all_passes()) rows.insert(std::string(pass.function));
  EXPECT_EQ(declared, rows);
}

TEST(PassTable, FindsEitherSpelling) {
  EXPECT_EQ((*find_pass("SoftMaxFusion"))->function, "softmax_fusion");
  EXPECT_EQ((*find_pass("softmax_fusion"))->name, "SoftMaxFusion");
  EXPECT_EQ((*find_pass("softmax-fusion"))->name, "SoftMaxFusion");
}

TEST(PassTable, UnknownNamesAreAnswered) {
  EXPECT_EQ(find_pass("SofMaxFusion").status().message(),
            "no pass is called 'SofMaxFusion'; there are SoftMaxFusion");
  const std::string volumes = find_pass("Volume").status().message();
  EXPECT_NE(volumes.find("VolumeLowering, VolumeSplit"), std::string::npos) << volumes;
  const std::string all = find_pass("zzzzzzzz").status().message();
  for (const Pass& pass : all_passes())
    EXPECT_NE(all.find(pass.name), std::string::npos) << pass.name;
}

}  // namespace
}  // namespace camshaft::passes
