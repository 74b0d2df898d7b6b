// SPDX-License-Identifier: Apache-2.0
// TensorRT's calibration cache: a text file of tensor names and scales.
//   TRT-8412-EntropyCalibration2
//   images: 3c010a14            eight hexadecimal digits: the scale's float bits, big endian
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/status.h"
#include "quantize/calibrators.h"

namespace camshaft::quantize {

using Scales = std::map<std::string, float, std::less<>>;  // tensor -> size of one step

struct CalibrationCache {
  std::string header;  // first line, "TRT-<version>-<algorithm>"
  Scales scales;
};

// kInvalidArgument, naming the line, for anything that is not such a file.
Result<CalibrationCache> parse_calibration_cache(std::string_view text);
std::string to_text(const CalibrationCache& cache);
// What TensorRT 8.4 (whose logs these programs follow) calls the calibrator nearest to `method`.
std::string cache_header(Method method);

}  // namespace camshaft::quantize
