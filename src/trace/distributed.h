// SPDX-License-Identifier: Apache-2.0
// The workers of one span together: overlap of computation and communication, waiting, collectives.
#pragma once

#include <string>
#include <vector>

#include "trace/profile.h"

namespace camshaft::trace {

// True when every worker has the same number of collectives of one library.
bool has_distributed_view(const std::vector<const Profile*>& workers);

std::string device_info_json(const std::vector<const Profile*>& workers);
std::string overlap_json(const std::vector<const Profile*>& workers);
std::string wait_time_json(const std::vector<const Profile*>& workers);
std::string collectives_json(const std::vector<const Profile*>& workers);

}  // namespace camshaft::trace
