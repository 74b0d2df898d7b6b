// SPDX-License-Identifier: Apache-2.0
// Attention of codes: scores, softmax, codes of weights and the product with the values are the
// kernels that the four layers would have alone, so it gives the same bits; but they run on a block
// of queries of one head at a time, whose scores stay in L2. Softmax has to be whole before weights
// are rounded, so a block has the scores of all keys; memory is linear in their number.
#include <algorithm>
#include <array>
#include <cstring>

#include "base/cpu.h"
#include "kernels/attention_shape.h"
#include "kernels/composed.h"
#include "kernels/prepared.h"

namespace camshaft::kernels {
namespace {

using ir::LayerKind;

constexpr int64_t kMostKeys = 65536;  // 255 * 128 of each fit into a sum of 32 bits
// Of a block, whatever L2 holds: keys and values are packed for each again. 4,096 keys of 12 heads
// on Zen 5: 149 ms with 64 rows, 129 with 128, 119 with 256, 118 with 512.
constexpr int64_t kLeastRows = 256;
constexpr int64_t kLeastRowsOfThread = 32;  // where threads would have uneven shares otherwise
constexpr double kEven = 1.1;
constexpr double kMacsWorthThreads = 400e3;

enum PartNumber { kScores, kSoftmax, kCodes, kValues, kParts };

struct PartKind {
  LayerKind kind;
  std::string_view tactics;  // how their names begin; their packed bytes do not hang on extents
};
constexpr PartKind kPartKinds[kParts] = {{LayerKind::kMatrixMultiply, "matmul_u8_"},
                                         {LayerKind::kSoftMax, "softmax_f32"},
                                         {LayerKind::kPointWise, "pointwise_f32"},
                                         {LayerKind::kMatrixMultiply, "matmul_u8_"}};

using Layers = std::array<ir::Layer, kParts>;

Layers layers_of(const ir::AttentionAttrs& a) {
  Layers layers;
  for (int part = 0; part < kParts; ++part) layers[part].kind = kPartKinds[part].kind;
  ir::MatrixMultiplyAttrs scores, values;
  scores.transpose_b = true;
  scores.a_zero_point = a.q_zero_point;
  scores.b_zero_point = a.k_zero_point;
  scores.epilogue = a.epilogue;
  values.a_zero_point = a.weights_zero_point;
  values.b_zero_point = a.v_zero_point;
  values.type = a.type;
  values.epilogue = a.result;
  ir::SoftMaxAttrs softmax;
  softmax.axis = softmax.last_axis = 1;
  layers[kScores].attrs = std::move(scores);
  layers[kSoftmax].attrs = softmax;
  layers[kCodes].attrs = ir::PointWiseAttrs{a.weight_codes, a.weights};
  layers[kValues].attrs = std::move(values);
  return layers;
}

// --- while building: the problems of a block's parts

int64_t extent_from_end(std::span<const int64_t> extents, size_t place) {
  return extents.size() < place ? 1 : extents[extents.size() - place];
}

// Of scores: what a block of one head sees of it.
ProblemTensor operand_of(const ProblemTensor& operand, int64_t rows) {
  ProblemTensor seen = operand;
  const bool is_one = ir::element_count(operand.extents) == 1;
  seen.extents = {extent_from_end(operand.extents, 2) == 1 ? 1 : rows,
                  extent_from_end(operand.extents, 1)};
  if (!is_one) seen.constant = nullptr;
  seen.dense = is_one;
  return seen;
}

ProblemTensor matrix(DataType type, int64_t rows, int64_t cols, bool dense) {
  return {true, type, Format::kLinear, {rows, cols}, nullptr, dense};
}

// What a part reads and writes, as problems or as views describe tensors.
template <class T>
struct Part {
  std::vector<T> inputs, outputs;
};
template <class T>
struct BlockTensors {
  T q, k, v, scores, codes, y;
  std::vector<T> operands;
};

template <class T>
std::array<Part<T>, kParts> parts_of(const BlockTensors<T>& t) {
  std::array<Part<T>, kParts> parts;
  parts[kScores] = {{t.q, t.k}, {t.scores}};
  if (!t.operands.empty()) parts[kScores].inputs.push_back({});  // no bias
  for (const T& operand : t.operands) parts[kScores].inputs.push_back(operand);
  parts[kSoftmax] = {{t.scores}, {t.scores}};
  parts[kCodes] = {{t.scores}, {t.codes}};
  parts[kValues] = {{t.codes, t.v}, {t.y}};
  return parts;
}

Problem problem_of(const ir::Layer& layer, const Part<ProblemTensor>& part) {
  return {&layer, part.inputs, part.outputs, 1};
}

std::array<Problem, kParts> problems_of(const Problem& p, const AttentionShape& shape,
                                        const Layers& layers, int64_t rows) {
  const DataType codes = p.layer->as<ir::AttentionAttrs>().weights;
  BlockTensors<ProblemTensor> block = {
      matrix(p.inputs[0].type, rows, shape.depth, false),
      matrix(p.inputs[1].type, shape.keys, shape.depth, false),
      matrix(p.inputs[2].type, shape.keys, shape.value_depth, false),
      matrix(DataType::kFloat, rows, shape.keys, true),
      matrix(codes, rows, shape.keys, true),
      matrix(p.outputs[0].type, rows, shape.value_depth, false),
      {}};
  for (size_t k = kFirstAttentionOperand; k < p.inputs.size(); ++k)
    block.operands.push_back(operand_of(p.inputs[k], rows));
  const auto parts = parts_of(block);
  std::array<Problem, kParts> problems;
  for (int part = 0; part < kParts; ++part) problems[part] = problem_of(layers[part], parts[part]);
  return problems;
}

template <Isa kIsa>
const Tactic* tactic_of(PartNumber part, const Problem& problem) {
  static const auto kCandidates = [] {
    std::array<std::vector<const Tactic*>, kParts> found;
    for (int k = 0; k < kParts; ++k)
      for (const Tactic* tactic : tactics_for(kPartKinds[k].kind))
        if (tactic->isa == kIsa &&
            std::string_view(tactic->name).substr(0, kPartKinds[k].tactics.size()) ==
                kPartKinds[k].tactics)
          found[k].push_back(tactic);
    return found;
  }();
  const Tactic* best = nullptr;
  double best_us = 0;
  for (const Tactic* tactic : kCandidates[part]) {
    if (!tactic->refusal(problem).empty()) continue;
    const double us = tactic->cost_us(problem);
    if (best && us >= best_us) continue;
    best = tactic;
    best_us = us;
  }
  return best;
}

// Queries whose scores and codes fit into half of L2.
int64_t rows_of_block(const AttentionShape& shape) {
  const int64_t bytes = static_cast<int64_t>(cpu_info().l2_bytes) / 2;
  return std::max(bytes / (5 * std::max<int64_t>(shape.keys, 1)), kLeastRows);
}

// The largest share of a thread over the mean.
double imbalance(int64_t units, int64_t threads) {
  return static_cast<double>((units + threads - 1) / threads * threads) /
         static_cast<double>(units);
}

// Blocks of a head, whose sizes differ by one at most; more where threads need them.
int64_t blocks_of(const AttentionShape& shape, int threads) {
  const int64_t heads = std::max<int64_t>(shape.batch * shape.heads, 1);
  const int64_t queries = std::max<int64_t>(shape.queries, 1), rows = rows_of_block(shape);
  int64_t blocks = (queries + rows - 1) / rows;
  for (int64_t more = blocks; queries / more >= kLeastRowsOfThread; ++more) {
    if (imbalance(heads * more, threads) < imbalance(heads * blocks, threads)) blocks = more;
    if (imbalance(heads * blocks, threads) <= kEven) break;
  }
  return blocks;
}

template <Isa kIsa>
std::string refusal(const Problem& p) {
  const auto& a = p.layer->as<ir::AttentionAttrs>();
  AttentionShape shape;
  if (!a.of_codes()) return "not of codes";
  if (!attention_shape(p, shape)) return "tensors that do not fit each other";
  if (shape.keys > kMostKeys) return "more keys than a sum of 32 bits takes";
  const Layers layers = layers_of(a);
  const auto problems = problems_of(p, shape, layers, std::max<int64_t>(shape.queries, 1));
  for (int part = 0; part < kParts; ++part)
    if (!tactic_of<kIsa>(PartNumber(part), problems[part])) return "no kernel for one of its parts";
  return {};
}

// visit(part, its tactic, its problem, how often it runs)
template <Isa kIsa, class Visit>
void for_each_part(const Problem& p, const Visit& visit) {
  AttentionShape shape;
  if (!attention_shape(p, shape)) return;
  const Layers layers = layers_of(p.layer->as<ir::AttentionAttrs>());
  const int64_t blocks = blocks_of(shape, p.threads), rows = (shape.queries + blocks - 1) / blocks;
  const auto problems = problems_of(p, shape, layers, std::max<int64_t>(rows, 1));
  for (int part = 0; part < kParts; ++part)
    if (const Tactic* tactic = tactic_of<kIsa>(PartNumber(part), problems[part]))
      visit(PartNumber(part), *tactic, problems[part], shape.batch * shape.heads * blocks);
}

template <Isa kIsa>
double cost_us(const Problem& p) {
  double us = 0;
  for_each_part<kIsa>(p, [&](PartNumber, const Tactic& tactic, const Problem& part, int64_t units) {
    us += tactic.cost_us(part) * static_cast<double>(units) / p.threads;
  });
  return us;
}

// --- packed operands: where each part's bytes begin, then those

size_t aligned(size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

using Offsets = std::array<uint64_t, kParts>;

template <Isa kIsa>
Offsets packed_offsets(const Problem& p, size_t& total) {
  Offsets offsets{};
  total = aligned(sizeof(Offsets));
  const size_t empty = total;
  for_each_part<kIsa>(p,
                      [&](PartNumber number, const Tactic& tactic, const Problem& part, int64_t) {
                        offsets[number] = total;
                        total += aligned(tactic.packed_bytes ? tactic.packed_bytes(part) : 0);
                      });
  if (total == empty) total = 0;
  return offsets;
}

template <Isa kIsa>
size_t packed_bytes(const Problem& p) {
  size_t total = 0;
  packed_offsets<kIsa>(p, total);
  return total;
}

template <Isa kIsa>
uint32_t packed_inputs(const Problem& p) {
  uint32_t inputs = 0;
  for_each_part<kIsa>(p,
                      [&](PartNumber number, const Tactic& tactic, const Problem& part, int64_t) {
                        if (number == kScores && tactic.packed_inputs)
                          inputs = tactic.packed_inputs(part) >> 3 << kFirstAttentionOperand;
                      });
  return inputs;
}

template <Isa kIsa>
void pack(const Problem& p, std::byte* packed) {
  size_t total = 0;
  const Offsets offsets = packed_offsets<kIsa>(p, total);
  if (total == 0) return;
  std::memcpy(packed, offsets.data(), sizeof(offsets));
  for_each_part<kIsa>(p,
                      [&](PartNumber number, const Tactic& tactic, const Problem& part, int64_t) {
                        if (tactic.packed_bytes && tactic.packed_bytes(part) > 0)
                          tactic.pack(part, packed + offsets[number]);
                      });
}

// --- prepared

TensorView view_of(DataType type, int64_t rows, int64_t cols, int64_t stride, int64_t step = 1) {
  static std::byte somewhere[64];
  TensorView view;
  view.data = somewhere;
  view.type = type;
  view.rank = 2;
  view.extents[0] = rows;
  view.extents[1] = cols;
  view.strides[0] = stride;
  view.strides[1] = step;
  return view;
}

// The kernels of blocks of one size, for one worker: a kernel runs one call at a time.
using BlockKernels = std::array<PreparedKernel, kParts>;

// How an operand of the scores moves with the block, in bytes.
struct OperandSteps {
  int64_t batch = 0, head = 0, row = 0;
};

struct State {
  Layers layers;
  AttentionShape shape;
  int64_t blocks = 1, most_rows = 1;
  bool alone = true;
  std::vector<std::array<BlockKernels, 2>> workers;  // of the smaller and of the larger blocks
  std::vector<OperandSteps> operands;
  int64_t element_bytes[3] = {}, y_bytes = 1;
  bool is_packed = false;
  Offsets packed{};
  size_t scores_bytes = 0, codes_bytes = 0, part_workspace = 0;

  size_t worker_bytes() const { return scores_bytes + codes_bytes + part_workspace; }
  int64_t units() const { return shape.batch * shape.heads * blocks; }
  int64_t first_row(int64_t block) const { return shape.queries * block / blocks; }
};

OperandSteps steps_of(const TensorView& operand) {
  const auto step = [&](int from_end) {
    const int d = operand.rank - from_end;
    if (d < 0 || operand.extents[d] == 1) return int64_t{0};
    return operand.strides[d] * static_cast<int64_t>(ir::bits_of(operand.type) / 8);
  };
  return {step(4), step(3), step(2)};
}

// A block's share of an operand; absent where it is packed.
TensorView operand_view(const TensorView& operand, int64_t rows) {
  const auto at = [&](int from_end, const int64_t* list, int64_t missing) {
    const int d = operand.rank - from_end;
    return d < 0 ? missing : list[d];
  };
  const bool spreads = at(2, operand.extents, 1) == 1;
  TensorView view = view_of(operand.type, spreads ? 1 : rows, at(1, operand.extents, 1),
                            spreads ? at(1, operand.extents, 1) : at(2, operand.strides, 1),
                            at(1, operand.strides, 1));
  if (!operand.data) view.data = nullptr;
  return view;
}

std::array<Part<TensorView>, kParts> views_of(const KernelArgs& args, const AttentionShape& shape,
                                              int64_t rows) {
  const DataType codes = args.layer->as<ir::AttentionAttrs>().weights;
  const auto view = [](const TensorView& of, const HeadStrides& strides, int64_t steps,
                       int64_t depth) {
    return view_of(of.type, steps, depth, strides.step, strides.element);
  };
  BlockTensors<TensorView> block = {view(args.inputs[0], shape.q, rows, shape.depth),
                                    view(args.inputs[1], shape.k, shape.keys, shape.depth),
                                    view(args.inputs[2], shape.v, shape.keys, shape.value_depth),
                                    view_of(DataType::kFloat, rows, shape.keys, shape.keys),
                                    view_of(codes, rows, shape.keys, shape.keys),
                                    view(args.outputs[0], shape.y, rows, shape.value_depth),
                                    {}};
  for (size_t k = kFirstAttentionOperand; k < args.inputs.size(); ++k)
    block.operands.push_back(operand_view(args.inputs[k], rows));
  return parts_of(block);
}

ProblemTensor described(const TensorView& view) {
  ProblemTensor t;
  t.present = view.present();
  t.type = view.type;
  if (t.present) t.extents.assign(view.extents, view.extents + view.rank);
  t.dense = !t.present || is_dense(view);
  return t;
}

Problem problem_of(const ir::Layer& layer, const Part<TensorView>& part) {
  Part<ProblemTensor> as_problem;
  for (const TensorView& view : part.inputs) as_problem.inputs.push_back(described(view));
  for (const TensorView& view : part.outputs) as_problem.outputs.push_back(described(view));
  return problem_of(layer, as_problem);
}

template <Isa kIsa>
void prepare_block(const KernelArgs& args, int64_t rows, State& s, BlockKernels& block) {
  const auto views = views_of(args, s.shape, rows);
  for (int part = 0; part < kParts; ++part) {
    KernelArgs own;
    own.layer = &s.layers[part];
    own.inputs = views[part].inputs;
    own.outputs = views[part].outputs;
    own.packed = s.is_packed ? args.packed + s.packed[part] : nullptr;
    own.pool = &ThreadPool::serial();
    const Tactic* tactic =
        tactic_of<kIsa>(PartNumber(part), problem_of(s.layers[part], views[part]));
    block[part] = tactic ? prepare_kernel(*tactic, own)
                         : prepare_kernel(*reference_kernel(s.layers[part]), own);
    s.part_workspace = std::max(s.part_workspace, aligned(block[part].workspace_bytes));
  }
}

// The addresses of one block's tensors.
void run_unit(State& s, const KernelCall& call, int worker, int64_t unit) {
  const AttentionShape& shape = s.shape;
  const int64_t block = unit % s.blocks, head = unit / s.blocks % shape.heads,
                b = unit / s.blocks / shape.heads, kv = head / shape.group();
  const int64_t row = s.first_row(block), rows = s.first_row(block + 1) - row;
  const auto input = [&](size_t k, const HeadStrides& strides, int64_t of_head, int64_t step) {
    return call.input<std::byte>(k) +
           (b * strides.batch + of_head * strides.head + step * strides.step) * s.element_bytes[k];
  };
  std::byte* const scores = call.workspace + static_cast<size_t>(worker) * s.worker_bytes();
  std::byte* const codes = scores + s.scores_bytes;
  void* y = call.output<std::byte>(0) +
            (b * shape.y.batch + head * shape.y.head + row * shape.y.step) * s.y_bytes;
  std::array<void*, 3 + 32> factors{input(0, shape.q, head, row), input(1, shape.k, kv, 0),
                                    nullptr};
  for (size_t k = 0; k < s.operands.size(); ++k) {
    const OperandSteps& steps = s.operands[k];
    auto* operand = call.input<std::byte>(kFirstAttentionOperand + k);
    factors[3 + k] =
        operand ? operand + b * steps.batch + head * steps.head + row * steps.row : nullptr;
  }
  void* const scored[] = {scores};
  void* const coded[] = {codes, input(2, shape.v, kv, 0)};
  void* const results[] = {y};
  const std::pair<void* const*, void* const*> pointers[kParts] = {
      {factors.data(), scored}, {scored, scored}, {scored, coded}, {coded, results}};
  BlockKernels& kernels = s.workers[static_cast<size_t>(worker)][rows == s.most_rows ? 1 : 0];
  for (int part = 0; part < kParts; ++part)
    (void)kernels[part]({pointers[part].first, pointers[part].second,
                         s.is_packed ? call.packed + s.packed[part] : nullptr,
                         codes + s.codes_bytes, &ThreadPool::serial()});
}

void run(void* state, const KernelCall& call) {
  State& s = *static_cast<State*>(state);
  const auto body = [&](int worker, int64_t first, int64_t last) {
    for (int64_t unit = first; unit < last; ++unit) run_unit(s, call, worker, unit);
  };
  if (s.alone)
    body(0, 0, s.units());
  else
    call.pool->parallel_ranges(s.units(), body);
}

template <Isa kIsa>
void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  kernel.run = [](void*, const KernelCall&) {};
  auto state = std::make_shared<State>();
  State& s = *state;
  const auto& a = args.layer->as<ir::AttentionAttrs>();
  if (args.outputs[0].elements() == 0 || !attention_shape(a, args.inputs, args.outputs[0], s.shape))
    return;
  const int threads = args.pool ? args.pool->threads() : 1;
  const double macs = static_cast<double>(s.shape.batch * s.shape.heads * s.shape.queries) *
                      static_cast<double>(s.shape.keys * (s.shape.depth + s.shape.value_depth));
  s.alone = threads == 1 || macs < kMacsWorthThreads;
  s.layers = layers_of(a);
  s.blocks = blocks_of(s.shape, s.alone ? 1 : threads);
  s.most_rows = (s.shape.queries + s.blocks - 1) / s.blocks;
  s.is_packed = args.packed != nullptr;
  if (s.is_packed) std::memcpy(s.packed.data(), args.packed, sizeof(s.packed));
  for (size_t k = 0; k < 3; ++k)
    s.element_bytes[k] = static_cast<int64_t>(ir::bits_of(args.inputs[k].type) / 8);
  s.y_bytes = static_cast<int64_t>(ir::bits_of(args.outputs[0].type) / 8);
  for (size_t k = kFirstAttentionOperand; k < args.inputs.size(); ++k)
    s.operands.push_back(steps_of(args.inputs[k]));
  s.scores_bytes = aligned(static_cast<size_t>(s.most_rows * s.shape.keys) * sizeof(float));
  s.codes_bytes = aligned(static_cast<size_t>(s.most_rows * s.shape.keys) + 64);
  s.workers.resize(s.alone ? 1 : threads);
  const int64_t least_rows = s.shape.queries / s.blocks;
  for (auto& worker : s.workers) {
    prepare_block<kIsa>(args, s.most_rows, s, worker[1]);
    if (least_rows != s.most_rows) prepare_block<kIsa>(args, least_rows, s, worker[0]);
  }
  kernel.workspace_bytes = s.worker_bytes() * s.workers.size();
  kernel.state = &s;
  kernel.run = run;
  kernel.hold(std::move(state));
}

template <Isa kIsa>
constexpr Tactic row() {
  return {.name = "attention_codes",
          .kind = LayerKind::kAttention,
          .isa = kIsa,
          .formats = FormatRule::kLinear,
          .version = 2,
          .refusal = refusal<kIsa>,
          .cost_us = cost_us<kIsa>,
          .packed_inputs = packed_inputs<kIsa>,
          .packed_bytes = packed_bytes<kIsa>,
          .pack = pack<kIsa>,
          .prepare = prepare<kIsa>};
}

constexpr Tactic kTactics[] = {row<Isa::kAvx512>(), row<Isa::kAvx2>(), row<Isa::kScalar>()};

}  // namespace

std::span<const Tactic> attention_codes_tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels
