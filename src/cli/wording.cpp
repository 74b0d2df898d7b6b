// SPDX-License-Identifier: Apache-2.0
#include "cli/wording.h"

#include <fmt/format.h>

#include "camshaft/version.h"

namespace camshaft::cli {
namespace {

constexpr LogWords kOurs;

// The releases whose logs these are.
constexpr int kTrtexec8 = 8600, kTrtexec10 = 101600;

constexpr LogWords trtexec(Wording wording, const char* version_line) {
  LogWords words;
  words.wording = wording;
  words.program = "TensorRT.trtexec";
  words.library = "[TRT] ";
  words.version_line = version_line;
  words.compute = "GPU Compute";
  words.average = "GPU latency";
  words.variation = "* GPU compute time is unstable, with coefficient of variance = ";
  if (wording == Wording::kTrtexec8) words.finished = "Finish parsing network model";
  return words;
}

constexpr LogWords k8 =
    trtexec(Wording::kTrtexec8, "TensorRT version: 8.6.0, in the words of: Camshaft ");
constexpr LogWords k10 =
    trtexec(Wording::kTrtexec10, "TensorRT version: 10.16.0, in the words of: Camshaft ");

}  // namespace

const LogWords& words_of(const std::string& name) {
  return name == "trtexec8" ? k8 : name == "trtexec10" ? k10 : kOurs;
}

std::string banner_head(const LogWords& words, const char* state) {
  constexpr int kNumber =
      CAMSHAFT_VERSION_MAJOR * 10000 + CAMSHAFT_VERSION_MINOR * 100 + CAMSHAFT_VERSION_PATCH;
  const std::string spoken =
      words.is_trtexec() ? fmt::format("[TensorRT v{}] ", words.is_8() ? kTrtexec8 : kTrtexec10)
                         : "";
  return fmt::format("&&&& {} {} {}[Camshaft v{}]", state, words.program, spoken, kNumber);
}

}  // namespace camshaft::cli
