// SPDX-License-Identifier: Apache-2.0
// Bytes and pairs that are picked from a few that all lanes see, as sparse products want them:
//   broadcast_eight(p): eight bytes over and over; pick(bytes, positions): of each sixteen bytes
//   those at `positions`; unpack_positions<kSlot>(packed): positions of two bits, the slot's of
//   four, even bytes among the first four of eight, odd ones among the others;
//   shift_dwords<kBits>: to the right, zeros enter; first_of_pairs, second_of_pairs: bfloat16s of
//   each lane as floats
//   Of floats: pick_row(p): kPickWidth neighbours, in every part of the vector that lanes pick
//   from; pick_row(p, count): zeros instead of what follows, which is not read; pick_floats(row,
//   lanes): each lane takes the one its lowest kPickBits say
#pragma once

#include "kernels/simd/products.h"

#include CAMSHAFT_SIMD(picks.h)
