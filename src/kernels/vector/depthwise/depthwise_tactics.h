// SPDX-License-Identifier: Apache-2.0
// What tactics of depthwise convolution share around the loops of depthwise_rows.h: what they take,
// their costs, packed weights, preparation.
#pragma once

#include "kernels/vector/depthwise/depthwise_rows.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace depthwise {

static inline const ir::ConvolutionAttrs& attrs_of(const ir::Layer& layer) {
  return *std::get_if<ir::ConvolutionAttrs>(&layer.attrs);
}

static inline bool shape_of(const Problem& p, ConvShape& s) {
  return conv_shape(attrs_of(*p.layer), p.inputs[0].extents, p.inputs[1].extents,
                    p.outputs[0].extents, s);
}

static inline std::string refuse_depthwise(const ConvShape& s) {
  if (s.groups != s.ic || s.ic == 1) return "not depthwise";
  if (s.oc != s.ic) return "channel multiplier > 1";
  return {};
}

// Weights of a quantized layer less their zero point: integers of 9 bits.
class CenteredWeights {
 public:
  explicit CenteredWeights(const Problem& p)
      : codes_(p.inputs[1].constant->view.data()),
        is_signed_(p.inputs[1].type == DataType::kInt8),
        zero_point_(static_cast<int>(attrs_of(*p.layer).w_zero_point)) {}

  int16_t operator[](int64_t k) const {
    const int code = is_signed_ ? static_cast<int8_t>(codes_[k]) : static_cast<uint8_t>(codes_[k]);
    return static_cast<int16_t>(code - zero_point_);
  }

 private:
  const std::byte* codes_;
  bool is_signed_;
  int zero_point_;
};

// What all quantized depthwise kernels ask of a problem.
static inline std::string refuse_quantized(const Problem& p, Bias bias) {
  ConvShape s;
  if (p.inputs[0].type != DataType::kUInt8) return "x is not uint8";
  const DataType out = p.outputs[0].type;
  if (out != DataType::kUInt8 && out != DataType::kInt8 && out != DataType::kFloat)
    return "the output is neither 8-bit nor float";
  const DataType weights = p.inputs[1].type;
  if ((weights != DataType::kInt8 && weights != DataType::kUInt8) || !p.inputs[1].constant)
    return "the weights are not an 8-bit constant";
  if (has_bias(p) && (p.inputs[2].type != DataType::kInt32 || !p.inputs[2].constant))
    return "the bias is not an int32 constant";
  if (!shape_of(p, s)) return "not a 1-D or 2-D convolution";
  if (std::string reason = refuse_depthwise(s); !reason.empty()) return reason;
  const int64_t zero_point = attrs_of(*p.layer).zero_point;
  if (zero_point < 0 || zero_point > 255) return "the zero point is no uint8";
  if (p.inputs.size() > kFirstOperand + kMaxOperands) return "too many epilogue operands";
  if (!program_fits(attrs_of(*p.layer).epilogue)) return "the epilogue is too long";
  return refuse_quantized_epilogue(p, bias);
}

// Channel in `lane` of the vector at `first`; -1: none.
static inline int64_t channel_of(const ConvShape& s, int64_t first, int64_t lane) {
  if (s.oc < kLanes) return lane < s.oc ? lane : -1;
  return (first + kLanes <= s.oc ? first : s.oc - kLanes) + lane;
}

static inline std::span<const int64_t> extents_of(const TensorView& view) {
  return {view.extents, static_cast<size_t>(view.rank)};
}

// Tensors, weights and operands; shape and epilogue are left to the caller.
template <class R>
void describe_tensors(const KernelArgs& args, R& run) {
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  const int last = x.rank - 1;
  run.x = x.as<const typename R::Input>();
  run.x_image = x.strides[0], run.x_row = x.rank == 4 ? x.strides[2] : 0,
  run.x_pixel = x.strides[last];
  run.y = y.as<std::byte>();
  run.stores_floats = y.type == DataType::kFloat;
  run.y_image = y.strides[0], run.y_row = y.rank == 4 ? y.strides[2] : 0,
  run.y_pixel = y.strides[last];
  run.packed = reinterpret_cast<const float*>(args.packed);
  run.program = &attrs_of(*args.layer).epilogue;
  for (size_t k = kFirstOperand; k < args.inputs.size(); ++k)
    run.operands[run.num_operands++] = conv_source(args.inputs[k], y);
}

// The same and the shape.
template <class R>
bool describe(const KernelArgs& args, R& run) {
  if (!conv_shape(attrs_of(*args.layer), extents_of(args.inputs[0]), extents_of(args.inputs[1]),
                  extents_of(args.outputs[0]), run.s))
    return false;
  describe_tensors(args, run);
  return true;
}

// One row of one block of channels per thread, for programs whose output is not float.
static inline int64_t row_channels(int64_t channels) {
  return channels < kChannelBlock + kLanes ? channels : kChannelBlock + kLanes;
}

// Makes y the program's output and the workspace the rows.
template <class R>
void set_program_rows(const KernelArgs& args, R& run) {
  const TensorView& y = args.outputs[0];
  run.out = y.as<std::byte>();
  run.out_type = y.type;
  run.out_image = run.y_image, run.out_row = run.y_row, run.out_pixel = run.y_pixel;
  run.y = args.workspace;
  run.stores_floats = true;
  run.y_pixel = row_channels(run.s.oc);
  run.y_row = run.y_pixel * run.s.ow;
}

// Bytes of those rows.
static inline size_t program_rows_bytes(const KernelArgs& args) {
  const TensorView& y = args.outputs[0];
  const int threads = args.pool != nullptr ? args.pool->threads() : 1;
  return static_cast<size_t>(threads * y.extents[y.rank - 1] * row_channels(y.extents[1])) *
         sizeof(float);
}

template <class Window>
std::string refuse_window(const ConvShape& s) {
  if (!Window::fits(s)) return "another window width, stride or dilation";
  if (!Window::kIsAny && s.oc < kLanes) return "fewer channels than a vector has";
  return "";
}

// Two vector FMAs and two loads a cycle at 3 GHz: cycles per output vector, and per tap of it.
static inline double windows_us(const Problem& p, double vector_cycles, double tap_cycles) {
  ConvShape s;
  if (!shape_of(p, s)) return 1e12;
  const double vectors =
      static_cast<double>(s.batch * s.oh * s.ow * ((s.oc + kLanes - 1) / kLanes));
  const double cycles = vectors * (vector_cycles + static_cast<double>(s.kh * s.kw) * tap_cycles);
  return traffic_us(p) / 4 + cycles / 3000 / p.threads;
}

// --- kernels with float weights and biases

static inline const float* constant_floats_of(const ProblemTensor& tensor) {
  return reinterpret_cast<const float*>(tensor.constant->view.data());
}

static inline std::string refuse_float_constants(const Problem& p) {
  if (p.inputs[1].type != DataType::kFloat || !p.inputs[1].constant)
    return "weights are not a float constant";
  if (has_bias(p) && (p.inputs[2].type != DataType::kFloat || !p.inputs[2].constant))
    return "the bias is not a float constant";
  return "";
}

static inline std::string refuse_float_operands(const Problem& p,
                                                DataType operands = DataType::kFloat) {
  if (p.inputs.size() > kFirstOperand + kMaxOperands) return "too many epilogue operands";
  if (!program_fits(attrs_of(*p.layer).epilogue)) return "the epilogue is too long";
  return refuse_operands(p, kFirstOperand, operands);
}

// What they ask of a problem, but for the types of x and y. `operands`: what those of the epilogue
// may be besides float.
template <class Window>
std::string refuse_float_weights(const Problem& p, DataType operands = DataType::kFloat) {
  ConvShape s;
  if (std::string reason = refuse_float_constants(p); !reason.empty()) return reason;
  if (!shape_of(p, s)) return "not a 1-D or 2-D convolution";
  if (std::string reason = refuse_depthwise(s); !reason.empty()) return reason;
  if (std::string reason = refuse_window<Window>(s); !reason.empty()) return reason;
  return refuse_float_operands(p, operands);
}

static inline uint32_t float_packed_inputs(const Problem& p) {
  return has_bias(p) ? 6u : 2u;
}

static inline size_t float_weights_bytes(const ConvShape& s) {
  return static_cast<size_t>((s.oc + kLanes - 1) / kLanes * (1 + s.kh * s.kw) * kLanes) *
         sizeof(float);
}
static inline size_t float_weights_bytes(const Problem& p) {
  ConvShape s;
  return shape_of(p, s) ? float_weights_bytes(s) : 0;
}

static inline void pack_float_weights(const Problem& p, std::byte* packed) {
  ConvShape s;
  if (!shape_of(p, s)) return;
  const float *w = constant_floats_of(p.inputs[1]),
              *bias = has_bias(p) ? constant_floats_of(p.inputs[2]) : nullptr;
  float* to = reinterpret_cast<float*>(packed);
  const int64_t taps = s.kh * s.kw;
  for (int64_t first = 0; first < s.oc; first += kLanes)
    for (int64_t tap = -1; tap < taps; ++tap)
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        const int64_t c = channel_of(s, first, lane);
        *to++ = c < 0 ? 0 : tap >= 0 ? w[c * taps + tap] : bias != nullptr ? bias[c] : 0;
      }
}

// What the tiles of floats do themselves; anything else is a program: an activation before the
// residual, too, which would take registers from all others (1.3 to 1.5 times as long).
template <class R>
Epilogue float_epilogue(const R& run) {
  const Epilogue epilogue = classify_epilogue(*run.program);
  if (!epilogue.adds()) return epilogue;
  const bool is_alone = epilogue.slope == 1 && !epilogue.is_gated;
  return is_alone && run.operands[epilogue.residual].is_contiguous() ? epilogue : kProgramEpilogue;
}

template <class R>
void set_addresses(const KernelCall& call, R& run) {
  run.x = call.input<const typename R::Input>(0);
  run.y = call.output<std::byte>(0);
  if (run.out != nullptr) {
    run.out = call.output<std::byte>(0);
    run.y = call.workspace;
  }
  run.packed = reinterpret_cast<const float*>(call.packed + run.packed_at);
  for (int k = 0; k < run.num_operands; ++k)
    run.operands[k].data = call.input<const std::byte>(kFirstOperand + static_cast<size_t>(k));
}

// The epilogue, if it is a program, in the form it runs in.
template <class R>
void compile_epilogue(R& run, PreparedKernel& kernel) {
  if (!run.epilogue.is_program) return;
  TileOperand operands[1 + kMaxOperands] = {{nullptr, 0, 1}};
  for (int k = 0; k < run.num_operands; ++k) operands[k + 1] = operand_at(run.operands[k], {}, 0);
  CompiledCode& code = keep(kernel, CompiledCode());
  compile_code(run.program->code.data(), static_cast<int>(run.program->code.size()),
               run.program->num_inputs, operands, run.out ? run.out_type : DataType::kFloat, code);
  run.code = &code;
}

template <class Window, class R>
void run_all_rows(const R& run, ThreadPool* pool) {
  const ConvShape& s = run.s;
  split(pool, s.batch * s.oh, run.predicted_us,
        [&run, &s](int worker, int64_t first, int64_t last) {
          for (int64_t row = first; row < last; ++row)
            run_row<Window>(run, worker, row / s.oh, row % s.oh);
        });
}

template <class Window, class R>
void run_rows(R& run, const KernelCall& call) {
  set_addresses(call, run);
  run_all_rows<Window>(run, call.pool);
}

template <class R>
void predict_rows(const KernelArgs& args, R& run) {
  run.predicted_us =
      static_cast<double>(count_of(args.outputs[0]) * run.s.kh * run.s.kw) / kLanes / 4500;
}

// A described kernel that goes row by row.
template <class Window, class R>
void keep_rows(const KernelArgs& args, const R& described, PreparedKernel& kernel) {
  R& run = keep_state<run_rows<Window, R>>(kernel, described);
  predict_rows(args, run);
  compile_epilogue(run, kernel);
  if (run.out != nullptr) kernel.workspace_bytes = program_rows_bytes(args);
}

}  // namespace depthwise
}  // namespace camshaft::kernels::CAMSHAFT_TARGET
