// SPDX-License-Identifier: Apache-2.0
// Between float, bfloat16 and half: reformats that change the storage type of a tensor (and may
// change its layout), casts.
#include "kernels/nest.h"
#include "kernels/simd/float16.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::convert {
namespace {

constexpr double kElementsPerUs = 10000;

bool is_taken(DataType type) {
  return type == DataType::kFloat || ir::is_16_bit_float(type);
}

std::string refusal(const Problem& p) {
  if (!is_taken(p.inputs[0].type) || !is_taken(p.outputs[0].type))
    return "neither float nor a 16-bit float";
  return p.inputs[0].type == p.outputs[0].type ? "the same type" : "";
}

// Gathers a row of the source where it is not contiguous.
template <class From, class To>
void convert_strided(const From* from, int64_t step, To* to, int64_t count) {
  constexpr int64_t kChunk = 256;
  From gathered[kChunk];
  for (int64_t first = 0; first < count; first += kChunk) {
    const int64_t chunk = count - first < kChunk ? count - first : kChunk;
    for (int64_t k = 0; k < chunk; ++k) gathered[k] = from[(first + k) * step];
    convert_row(gathered, to + first, chunk);
  }
}

struct Conversion {
  Nest nest;
  double predicted_us;
};

template <class From, class To>
void run(Conversion& c, const KernelCall& call) {
  const Nest& nest = c.nest;
  const From* x = call.input<const From>(0);
  To* y = call.output<To>(0);
  const auto body = [&nest, x, y](const int64_t* offsets, int64_t rows, int64_t cols) {
    const From* from = x + offsets[1];
    To* to = y + offsets[0];
    const int64_t step = nest.col_stride(1);
    for (int64_t row = 0; row < rows; ++row, from += nest.row_stride(1), to += nest.row_stride(0)) {
      if (step == 1)
        convert_row(from, to, cols);
      else
        convert_strided(from, step, to, cols);
    }
  };
  for_tiles(nest, call.pool, c.predicted_us, body);
}

void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  Conversion conversion{make_nest(y), static_cast<double>(count_of(y)) / kElementsPerUs};
  add_tensor(conversion.nest, x);
  collapse(conversion.nest);
  with_float_type(x.type, [&](auto from) {
    with_float_type(y.type, [&](auto to) {
      keep_state<run<decltype(from), decltype(to)>>(kernel, conversion);
    });
  });
}

constexpr Tactic kTactics[] = {
    {"cast_floats", ir::LayerKind::kCast, kIsa, FormatRule::kSame, 1, refusal, traffic_us,
     CAMSHAFT_NOTHING_PACKED, prepare},
    {"reformat_convert", ir::LayerKind::kReformat, kIsa, FormatRule::kAny, 1, refusal, traffic_us,
     CAMSHAFT_NOTHING_PACKED, prepare},
};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::convert
