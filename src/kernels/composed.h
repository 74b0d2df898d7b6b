// SPDX-License-Identifier: Apache-2.0
// Tactics that are made of others': kernels of a set that run one after the other on blocks that
// stay in L2. They are no code of an instruction set, so one file has the rows of every set.
#pragma once

#include "kernels/kernel.h"

namespace camshaft::kernels {

std::span<const Tactic> attention_codes_tactics();

}  // namespace camshaft::kernels
