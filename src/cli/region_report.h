// SPDX-License-Identifier: Apache-2.0
// Regions as `camshaft explain` and `camshaft inspect` print them.
#pragma once

#include <string>

#include "camshaft/inspector.h"

namespace camshaft::cli {

// Of all layers when the engine was built.
double total_us(const Inspector& inspector);

// By its name, "region0", or a part of its name that begins with "ForeignNode"; null: none is
// meant.
const RegionInfo* find_region(const Inspector& inspector, const std::string& word);

// "region 0 {ForeignNode[…]}: 12 layers, 34.5 us, 100 % …", one line each; nothing without regions.
void print_region_list(const Inspector& inspector);

// What it is, why it was formed, what ended it at both ends, and its layers in a table.
void explain_region(const Inspector& inspector, const RegionInfo& region);

}  // namespace camshaft::cli
