// SPDX-License-Identifier: Apache-2.0
// What 8 bits cost and gain, layer by layer: why a quantized network is in more pieces.
#pragma once

#include "camshaft/inspector.h"
#include "cli/session.h"

namespace camshaft::cli {

// Conversions between floats and codes that are layers of their own, and what products of codes
// would take in float; nothing for networks without either.
void print_conversions(const Inspector& inspector);

// --float: the same network in float beside this one, work by work.
Status compare_with_float(const Inspector& inspector, const Options& options, Messages& messages);

}  // namespace camshaft::cli
