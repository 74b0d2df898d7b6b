// SPDX-License-Identifier: Apache-2.0
// Long texts on a narrow terminal: names of kernels that stay apart, sentences that wrap.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace camshaft::cli {

// A kernel's name in at most `width` columns (0: as it is): first without its parameters, then
// without template arguments from the innermost outwards, then without its middle.
std::string short_kernel_name(std::string_view name, size_t width);

// All names of a column. Where two different ones would look the same, each shows the place that
// tells it from the other.
std::vector<std::string> short_kernel_names(const std::vector<std::string>& names, size_t width);

// Lines of at most `width` columns (0: one line), broken at blanks; all but the first begin with
// `indent` blanks.
std::string wrapped(std::string_view text, size_t width, size_t indent);

}  // namespace camshaft::cli
