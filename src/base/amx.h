// SPDX-License-Identifier: Apache-2.0
// AMX, the matrix registers of Intel's servers since 2023: eight tiles of 16 rows of 64 bytes, and
// one instruction for a product of 16 x 64 bytes by 64 x 16. The operating system saves 8 KiB more
// per thread for them, so Linux wants to be asked once per process, and may refuse.
#pragma once

namespace camshaft {

// Of bytes and of bfloat16s, in a processor whose system saves them.
bool has_matrix_registers();
// Asks the system, for all threads of the process.
bool ask_for_matrix_registers();

}  // namespace camshaft
