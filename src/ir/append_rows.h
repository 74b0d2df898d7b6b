// SPDX-License-Identifier: Apache-2.0
// AppendRows: new rows go behind those a buffer holds already, as the caches of decoders are
// written. A Generic layer of past [batch, …, rows, …], fresh (other rows along `axis`), first
// (integers: where the fresh rows of each item of the batch begin; one for all of them; absent: 0)
// and total (an integer, or absent). y has max(rows, total) rows along the axis: those of past,
// zeros behind them, the fresh ones over both. Fresh rows that begin behind past or do not fit into
// y are an error. Where y lies in past, what is not fresh stays as it is.
#pragma once

#include "ir/graph.h"

namespace camshaft::ir {

inline constexpr const char* kAppendRows = "AppendRows";
inline constexpr size_t kAppendFresh = 1, kAppendFirst = 2, kAppendTotal = 3;

// ≥ 1; 0 where the layer is another operator.
int64_t append_axis(const Layer& layer);
GenericAttrs append_attributes(int64_t axis);

}  // namespace camshaft::ir
