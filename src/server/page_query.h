// SPDX-License-Identifier: Apache-2.0
// What the page's routes share.
#pragma once

#include <string>
#include <string_view>

#include "server/query.h"
#include "trace/json_text.h"

namespace camshaft::server {

// Names of templates reach kilobytes; the page shows their beginning.
std::string_view shortened(std::string_view name);
Answer page_json(trace::JsonWriter& writer);

// Paged, searched and sorted tables.
Answer page_operators(const Query& query, const Run&, const ProfileEntry& entry);
Answer page_kernels(const Query& query, const Run&, const ProfileEntry& entry);
Answer page_memory(const Query& query, const Run&, const ProfileEntry& entry);

}  // namespace camshaft::server
