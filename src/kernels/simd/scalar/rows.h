// SPDX-License-Identifier: Apache-2.0
// Rows of bytes interleaved, so that a dword holds vertical neighbours of a channel.
#pragma once

namespace camshaft::kernels::scalar {}  // namespace camshaft::kernels::scalar
