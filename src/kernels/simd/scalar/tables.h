// SPDX-License-Identifier: Apache-2.0
// Vectors of bytes that index rows of a table.
#pragma once

namespace camshaft::kernels::scalar {}  // namespace camshaft::kernels::scalar
