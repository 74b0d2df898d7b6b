// SPDX-License-Identifier: Apache-2.0
// Reading recorded answers of the plugin back into the structures that print them.
#pragma once

#include <string_view>

#include "base/status.h"
#include "trace/answers.h"

namespace camshaft::trace {

Result<OverviewAnswer> parse_overview(std::string_view json);
Result<OperationAnswer> parse_operation(std::string_view json);
Result<OperationTableAnswer> parse_operation_table(std::string_view json);
Result<KernelTableAnswer> parse_kernel_table(std::string_view json);
Result<TotalAnswer> parse_total(std::string_view json);

}  // namespace camshaft::trace
