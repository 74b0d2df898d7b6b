// SPDX-License-Identifier: Apache-2.0
#include "quantize/calibration_cache.h"

#include <bit>
#include <charconv>
#include <cmath>

namespace camshaft::quantize {
namespace {

Status bad_line(int number, std::string_view why) {
  return make_error(ErrorCode::kInvalidArgument, "calibration cache, line {}: {}", number, why);
}

// "name: 3c010a14"; the name itself may hold colons.
Status parse_line(std::string_view line, int number, Scales& scales) {
  const size_t colon = line.rfind(':');
  if (colon == std::string_view::npos || colon == 0)
    return bad_line(number, "not of the form \"tensor: hexadecimal scale\"");
  std::string_view digits = line.substr(colon + 1);
  while (digits.starts_with(' ')) digits.remove_prefix(1);
  uint32_t bits = 0;
  const char* end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, bits, 16);
  if (digits.size() > 8 || parsed.ec != std::errc() || parsed.ptr != end)
    return bad_line(number, "the scale is not a hexadecimal number of 32 bits");
  const float scale = std::bit_cast<float>(bits);
  if (!std::isfinite(scale) || scale < 0)
    return bad_line(number, "the scale is no positive number");
  scales[std::string(line.substr(0, colon))] = scale;
  return ok_status();
}

}  // namespace

Result<CalibrationCache> parse_calibration_cache(std::string_view text) {
  CalibrationCache cache;
  int number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (++number == 1) {
      if (!line.starts_with("TRT-") || line.find('-', 4) == std::string_view::npos)
        return bad_line(1, "does not begin with \"TRT-<version>-<calibrator>\"");
      cache.header = line;
    } else if (!line.empty()) {
      CAMSHAFT_TRY(parse_line(line, number, cache.scales));
    }
  }
  if (number == 0) return bad_line(1, "the file is empty");
  return cache;
}

std::string to_text(const CalibrationCache& cache) {
  std::string text = cache.header + "\n";
  for (const auto& [name, scale] : cache.scales)
    text += fmt::format("{}: {:08x}\n", name, std::bit_cast<uint32_t>(scale));
  return text;
}

std::string cache_header(Method method) {
  switch (method) {
    case Method::kMinMax:
      return "TRT-8412-MinMaxCalibration";
    case Method::kPercentile:
      return "TRT-8412-LegacyCalibration";
    default:
      return "TRT-8412-EntropyCalibration2";
  }
}

}  // namespace camshaft::quantize
