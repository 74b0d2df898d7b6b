// SPDX-License-Identifier: Apache-2.0
// What the page asks for: paged and searched tables, timeline windows at the detail a screen can
// show. Every answer is bounded to about a megabyte.
#pragma once

#include <string>

#include "server/api.h"

namespace camshaft::server {

// `path` is relative to /api: "/operators".
Answer page_answer(const RunStore& store, const std::string& path, const Parameters& parameters);

}  // namespace camshaft::server
