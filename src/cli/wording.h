// SPDX-License-Identifier: Apache-2.0
// What camexec's log calls things: our words, which say what is true of a CPU, or (--wording) those
// of trtexec 8.x and 10.x, which scripts, TREx and dashboards look for.
#pragma once

#include <string>

#include "camshaft/inspector.h"

namespace camshaft::cli {

struct LogWords {
  Wording wording = Wording::kCamshaft;
  const char* program = "Camshaft.camexec";  // of the banner
  const char* library = "[CAM] ";            // before lines of the library
  const char* version_line = "Camshaft version: ";
  const char* compute = "Compute";          // "Compute Time: min = …", "Total Compute Time: …"
  const char* average = "Compute latency";  // of the trace's lines
  const char* variation = "* Compute time is unstable, with coefficient of variation = ";
  const char* finished = "Finished parsing network model. Parse time: ";  // 8.x gives no time

  bool is_trtexec() const { return wording != Wording::kCamshaft; }
  bool is_8() const { return wording == Wording::kTrtexec8; }
};

// "camshaft", "trtexec8" or "trtexec10".
const LogWords& words_of(const std::string& name);

// "&&&& PASSED Camshaft.camexec [Camshaft v100]", of trtexec's wording "&&&& PASSED
// TensorRT.trtexec [TensorRT v8600] [Camshaft v100]".
std::string banner_head(const LogWords& words, const char* state);

}  // namespace camshaft::cli
