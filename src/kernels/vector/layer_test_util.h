// SPDX-License-Identifier: Apache-2.0
// Runs one layer with every tactic of its kind, in every format the tactic takes, dense and as
// views into larger buffers, on one and on several threads, and compares with the reference kernel.
// Outputs are poisoned before; what lies between them must stay.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/reference/access.h"
#include "kernels/testing/layer_case.h"
#include "kernels/testing/prepare_elsewhere.h"

namespace camshaft::kernels::test {

using ir::Extents;

struct TestTensor {
  Extents extents;
  DataType type = DataType::kFloat;
  bool is_data = true;       // takes the tactic's format (when of rank ≥ 3); else linear
  bool is_constant = false;  // known while building: may be packed
  bool present = true;
  // Element k; default: uniform in [-2, 2] (floats), [-100, 100] (integers), 0 or 1 (bool).
  std::function<double(int64_t k)> value = {};
};

struct TestLayer {
  std::shared_ptr<ir::Layer> layer;
  std::vector<TestTensor> inputs, outputs;
  double tolerance = 1e-5;  // of max(1, |expected|)
  // The expected value of 8-bit outputs is not rounded: they may differ by half a step, and by the
  // tolerance at ties.
  bool rounds = false;
  std::string only = {};  // tactics whose name contains this
  bool strided_inputs = true, strided_outputs = true;
  bool threaded = true;   // run on three threads, too
  double off_by_one = 0;  // share of an 8-bit output's codes that may be one step off (ties)
};

inline std::shared_ptr<ir::Layer> make_layer(ir::LayerKind kind, ir::Attrs attrs) {
  auto layer = std::make_shared<ir::Layer>();
  layer->kind = kind;
  layer->name = "layer";
  layer->attrs = std::move(attrs);
  return layer;
}

// A tensor in memory, as a view into a buffer that may be larger.
struct Storage {
  std::vector<std::byte> bytes;
  TensorView view;
};

// `extra`: how much larger the buffer is along its channel dimension (channel last) or its last one
// (linear).
inline Storage make_storage(const TestTensor& tensor, Format format, int64_t extra) {
  Storage storage;
  if (!tensor.present) return storage;
  Extents whole = tensor.extents;
  const bool channel_last = format == Format::kChannelLast && whole.size() >= 3;
  const int axis = channel_last ? 1 : static_cast<int>(whole.size()) - 1;
  if (axis < 0) extra = 0;
  if (extra > 0) whole[axis] += extra;
  storage.view = make_view(nullptr, tensor.type, format, whole);
  const size_t size = ir::bits_of(tensor.type) / 8;
  // Exactly long enough, so that the address sanitizer sees reads beyond the view's last element
  // too.
  const auto elements = static_cast<size_t>(storage.view.elements());
  storage.bytes.assign(std::max<size_t>(elements * size, 1), std::byte{0xff});
  storage.view.data = storage.bytes.data();
  for (size_t d = 0; d < tensor.extents.size(); ++d) storage.view.extents[d] = tensor.extents[d];
  if (extra > 0)
    storage.view.data = storage.bytes.data() +
                        (extra / 2) * storage.view.strides[axis] * static_cast<int64_t>(size);
  return storage;
}

inline std::vector<double> make_values(const TestTensor& tensor, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<double> values(static_cast<size_t>(ir::element_count(tensor.extents)));
  for (size_t k = 0; k < values.size(); ++k) {
    if (tensor.value)
      values[k] = tensor.value(static_cast<int64_t>(k));
    else if (tensor.type == DataType::kBool)
      values[k] = static_cast<double>(random() % 2);
    else if (ir::is_floating(tensor.type))
      values[k] = static_cast<float>(static_cast<double>(random() % 40001) / 10000 - 2);
    else
      values[k] = static_cast<double>(static_cast<int>(random() % 201)) -
                  (tensor.type == DataType::kUInt8 ? 0 : 100);
  }
  return values;
}

class LayerCheck {
 public:
  explicit LayerCheck(const TestLayer& test) : test_(test) {
    for (size_t k = 0; k < test.inputs.size(); ++k)
      values_.push_back(make_values(test.inputs[k], static_cast<uint32_t>(k + 1)));
  }

  // How many runs were compared; adds a failure for each that differs.
  int run() {
    compute_expected();
    for (const Tactic* tactic : tactics_for(test_.layer->kind)) {
      if (std::string_view(tactic->name).find(test_.only) == std::string_view::npos) continue;
      for (const auto& [in, out] : formats(tactic->formats)) check_tactic(*tactic, in, out);
      if (::testing::Test::HasFatalFailure()) break;
    }
    check_inputs();
    return runs_;
  }

  const std::string& last_refusal() const { return refusal_; }
  const std::vector<double>& last_output() const { return last_output_; }  // the first, of a run

 private:
  static std::vector<std::pair<Format, Format>> formats(FormatRule rule) {
    constexpr Format kL = Format::kLinear, kC = Format::kChannelLast;
    switch (rule) {
      case FormatRule::kLinear:
        return {{kL, kL}};
      case FormatRule::kChannelLast:
        return {{kC, kC}};
      case FormatRule::kLinearToChannelLast:
        return {{kL, kC}};
      case FormatRule::kChannelLastToLinear:
        return {{kC, kL}};
      case FormatRule::kSame:
        return {{kL, kL}, {kC, kC}};
      default:
        return {{kL, kL}, {kC, kC}, {kL, kC}, {kC, kL}};
    }
  }

  Storage fill_input(size_t k, Format format, int64_t extra) const {
    const TestTensor& tensor = test_.inputs[k];
    Storage storage =
        make_storage(tensor, tensor.is_data ? format : Format::kLinear, tensor.is_data ? extra : 0);
    if (!tensor.present) return storage;
    if (tensor.type == DataType::kBool || !ir::is_floating(tensor.type)) {
      reference::store<int64_t>(storage.view,
                                std::vector<int64_t>(values_[k].begin(), values_[k].end()));
    } else {
      reference::store<double>(storage.view, values_[k]);
    }
    return storage;
  }

  // Filled once for all tactics: kernels only read them.
  const std::vector<Storage>& inputs_in(Format format, int64_t extra) {
    std::vector<Storage>& inputs = inputs_[{format, extra}];
    for (size_t k = inputs.size(); k < test_.inputs.size(); ++k)
      inputs.push_back(fill_input(k, format, extra));
    return inputs;
  }

  void check_inputs() const {
    for (const auto& [key, inputs] : inputs_)
      for (size_t k = 0; k < inputs.size(); ++k)
        EXPECT_TRUE(inputs[k].bytes == fill_input(k, key.first, key.second).bytes)
            << "a kernel wrote into its input " << k;
  }

  static ThreadPool& pool_of(int threads) {
    static std::map<int, ThreadPool> pools;
    return pools.try_emplace(threads, threads).first->second;
  }

  void compute_expected() {
    std::vector<Storage> inputs, outputs;
    for (size_t k = 0; k < test_.inputs.size(); ++k)
      inputs.push_back(fill_input(k, Format::kLinear, 0));
    for (TestTensor tensor : test_.outputs) {
      if (test_.rounds) tensor.type = DataType::kFloat;
      outputs.push_back(make_storage(tensor, Format::kLinear, 0));
    }
    const Status status = call(inputs, outputs, [&](const KernelArgs& args) {
      const ReferenceKernel* kernel = reference_kernel(*test_.layer);
      if (kernel != nullptr && kernel->run != nullptr) return kernel->run(args);
      if (kernel != nullptr && kernel->run_dynamic != nullptr)
        return run_dynamic(*kernel, args, outputs);
      return make_error(ErrorCode::kInternal, "no reference kernel");
    });
    ASSERT_TRUE(status.ok()) << status.message();
    for (const Storage& storage : outputs)
      expected_.push_back(storage.view.present() ? reference::load<double>(storage.view)
                                                 : std::vector<double>());
  }

  // Operators that tell the extents of what they give.
  static Status run_dynamic(const ReferenceKernel& kernel, const KernelArgs& args,
                            std::vector<Storage>& outputs) {
    std::vector<DynamicOutput> given;
    CAMSHAFT_TRY(kernel.run_dynamic(args, given));
    for (size_t k = 0; k < outputs.size(); ++k)
      std::memcpy(outputs[k].view.data, given[k].bytes.data(), given[k].bytes.size());
    return ok_status();
  }

  template <class Run>
  Status call(const std::vector<Storage>& inputs, const std::vector<Storage>& outputs, Run run) {
    std::vector<TensorView> in, out;
    for (const Storage& storage : inputs) in.push_back(storage.view);
    for (const Storage& storage : outputs) out.push_back(storage.view);
    KernelArgs args;
    args.layer = test_.layer.get();
    args.inputs = in;
    args.outputs = out;
    args.pool = &pool_of(1);
    return run(args);
  }

  Problem make_problem(Format in, Format out, const std::vector<Storage>& inputs,
                       std::vector<ir::ConstantData>& constants) const {
    Problem problem;
    problem.layer = test_.layer.get();
    constants.resize(test_.inputs.size());
    const auto describe = [](const TestTensor& tensor, Format format) {
      const bool formatted = tensor.is_data && tensor.extents.size() >= 3;
      return ProblemTensor{tensor.present, tensor.type, formatted ? format : Format::kLinear,
                           tensor.extents, nullptr};
    };
    for (size_t k = 0; k < test_.inputs.size(); ++k) {
      problem.inputs.push_back(describe(test_.inputs[k], in));
      if (!test_.inputs[k].is_constant || !test_.inputs[k].present) continue;
      constants[k].view = inputs[k].bytes;
      problem.inputs.back().constant = &constants[k];
    }
    for (const TestTensor& tensor : test_.outputs) problem.outputs.push_back(describe(tensor, out));
    return problem;
  }

  void check_tactic(const Tactic& tactic, Format in, Format out) {
    for (const int64_t extra : {int64_t{0}, int64_t{6}}) {
      if (extra > 0 && !test_.strided_inputs && !test_.strided_outputs) continue;
      for (const int threads : {1, 3}) {
        if (threads > 1 && !test_.threaded) continue;
        const std::vector<Storage>& inputs = inputs_in(in, test_.strided_inputs ? extra : 0);
        std::vector<Storage> outputs;
        for (const TestTensor& tensor : test_.outputs)
          outputs.push_back(make_storage(tensor, out, test_.strided_outputs ? extra : 0));
        std::vector<ir::ConstantData> constants;
        Problem problem = make_problem(in, out, inputs, constants);
        problem.threads = threads;
        if (const std::string reason = tactic.refusal(problem); !reason.empty()) {
          refusal_ = reason;
          return;
        }
        EXPECT_GT(tactic.cost_us(problem), 0);
        const std::string label =
            std::string(tactic.name) + " " + std::string(isa_name(tactic.isa)) + " " +
            std::string(ir::format_name(in)) + " to " + std::string(ir::format_name(out)) +
            (extra > 0 ? ", strided" : "") + ", threads " + std::to_string(threads);
        execute(tactic, problem, inputs, outputs);
        // Tolerances are multiples of the epsilon of floats; products in bfloat16 are off by 2^-8.
        // A test of such tactics alone knows its operands.
        const bool is_rounded = tactic.precision != DataType::kUndefined && test_.only.empty();
        compare(outputs, label, test_.tolerance * (is_rounded ? 32768 : 1));
        ++runs_;
      }
    }
  }

  void execute(const Tactic& tactic, const Problem& problem, const std::vector<Storage>& inputs,
               const std::vector<Storage>& outputs) {
    std::vector<std::byte> packed(tactic.packed_bytes(problem) + 64, std::byte{0xff});
    std::byte* aligned = align(packed.data());
    if (tactic.packed_bytes(problem) > 0) tactic.pack(problem, aligned);
    std::vector<TensorView> in, out;
    for (size_t k = 0; k < inputs.size(); ++k) {
      in.push_back(inputs[k].view);
      if ((tactic.packed_inputs(problem) >> k & 1) != 0) in.back().data = nullptr;
    }
    for (const Storage& storage : outputs) out.push_back(storage.view);
    KernelArgs args;
    args.layer = test_.layer.get();
    args.inputs = in;
    args.outputs = out;
    args.packed = aligned;
    args.pool = &pool_of(problem.threads);
    BoundKernel kernel = prepare_elsewhere(tactic, args, tactic.packed_bytes(problem));
    std::vector<std::byte> workspace(kernel.workspace_bytes() + 64, std::byte{0xff});
    kernel.set_workspace(align(workspace.data()));
    EXPECT_TRUE(kernel.run().ok());
  }

  static std::byte* align(std::byte* p) {
    return p + (64 - reinterpret_cast<uintptr_t>(p) % 64) % 64;
  }

  void compare(const std::vector<Storage>& outputs, const std::string& label, double tolerance) {
    for (size_t k = 0; k < outputs.size(); ++k) {
      if (!outputs[k].view.present()) continue;
      const std::vector<double> got = reference::load<double>(outputs[k].view);
      if (k == 0) last_output_ = got;
      const bool has_codes = ir::bits_of(outputs[k].view.type) == 8;
      double may_differ = has_codes ? test_.off_by_one * static_cast<double>(got.size()) : 0;
      for (size_t n = 0; n < got.size(); ++n) {
        double want = expected_[k][n], half_step = 0;
        if (test_.rounds && outputs[k].view.type == DataType::kUInt8)
          want = std::clamp(want, 0.0, 255.0), half_step = 0.5;
        if (std::isnan(want) ? std::isnan(got[n]) : got[n] == want) continue;
        if (std::abs(got[n] - want) == 1 && (may_differ -= 1) >= 0) continue;
        const double bound = half_step + tolerance * std::max(1.0, std::abs(want));
        if (std::abs(got[n] - want) <= bound) continue;  // a tenth of what the macro takes
        ASSERT_NEAR(got[n], want, bound) << label << ", output " << k << " element " << n;
      }
      check_gaps(outputs[k], label);
    }
  }

  // Bytes of the buffer that do not belong to the view are still poisoned.
  static void check_gaps(const Storage& storage, const std::string& label) {
    const TensorView& view = storage.view;
    const auto size = static_cast<int64_t>(ir::bits_of(view.type) / 8);
    if (static_cast<size_t>(view.elements() * size) == storage.bytes.size()) return;  // no gaps
    std::vector<bool> inside(storage.bytes.size());
    const int64_t base = reinterpret_cast<const std::byte*>(view.data) - storage.bytes.data();
    reference::for_each_index(reference::extents_of(view), [&](const Extents& index) {
      int64_t offset = base;
      for (size_t d = 0; d < index.size(); ++d) offset += index[d] * view.strides[d] * size;
      for (int64_t k = 0; k < size; ++k) inside[static_cast<size_t>(offset + k)] = true;
    });
    for (size_t k = 0; k < inside.size(); ++k) {
      if (inside[k]) continue;
      ASSERT_EQ(storage.bytes[k], std::byte{0xff}) << label << " wrote outside its output";
    }
  }

  TestLayer test_;
  std::vector<std::vector<double>> values_, expected_;
  std::map<std::pair<Format, int64_t>, std::vector<Storage>> inputs_;  // by format and extra
  std::string refusal_;
  std::vector<double> last_output_;
  int runs_ = 0;
};

// Runs every tactic; fails where none took the problem.
inline void check_layer(const TestLayer& test, const std::string& what) {
  SCOPED_TRACE(what);
  LayerCheck check(test);
  EXPECT_GT(check.run(), 0) << "every tactic refused: " << check.last_refusal();
}

inline std::string words(std::initializer_list<int64_t> numbers) {
  std::string text;
  for (const int64_t number : numbers) text += std::to_string(number) + " ";
  return text;
}

// What the first tactic gives whose name begins with `name` and that takes the layer; or nothing.
inline std::vector<float> output_of(LayerCase& layer, ir::LayerKind kind, std::string_view name) {
  for (const Tactic* tactic : tactics_for(kind)) {
    if (tactic->isa != active_isa() || !std::string_view(tactic->name).starts_with(name)) continue;
    if (!tactic->refusal(layer.problem(*tactic, 1)).empty()) continue;
    layer.prepare(*tactic, &ThreadPool::serial());
    layer.run();
    std::vector<float> values(layer.output().size() / sizeof(float));
    std::memcpy(values.data(), layer.output().data(), layer.output().size());
    return values;
  }
  return {};
}

}  // namespace camshaft::kernels::test
