// SPDX-License-Identifier: Apache-2.0
// Which convolutions of volumes VolumeLowering makes ones of images.
#pragma once

#include "passes/match.h"

namespace camshaft::passes {

// Why it cannot, whatever the weights and what follows; `of_codes`: once it is one of codes.
ir::Refusal refuse_volume(const ir::Layer& conv, bool of_codes);

}  // namespace camshaft::passes
