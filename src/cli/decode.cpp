// SPDX-License-Identifier: Apache-2.0
#include "cli/decode.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "camshaft/inspector.h"
#include "cli/inference_loop.h"
#include "cli/statistics.h"
#include "kernels/probe.h"

namespace camshaft::cli {
namespace {

using Role = DecoderBindings::Role;

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  return at == std::string::npos ? std::string() : text.replace(at, from.size(), to);
}

// past_key_values.0.key → present.0.key, past_key_0 → present_key_0, key_cache_0 → key_cache_0_out
// …; empty: none is there.
std::string present_of(const std::string& past, const std::vector<TensorInfo>& outputs) {
  for (const std::string& name :
       {replaced(past, "past_key_values", "present"), replaced(past, "past", "present"),
        past + "_out", "present_" + past, "updated_" + past, "new_" + past})
    for (const TensorInfo& output : outputs)
      if (!name.empty() && output.name == name) return name;
  return {};
}

Role role_of(const TensorInfo& input) {
  if (contains(input.name, "mask")) return Role::kMask;
  if (contains(input.name, "write_ind")) return Role::kPast;
  if (contains(input.name, "position")) return Role::kPositions;
  if (contains(input.name, "seqlens")) return Role::kLengths;
  if (contains(input.name, "total_seq")) return Role::kTotal;
  if (input.type == DataType::kBool) return Role::kFlag;
  return Role::kTokens;
}

bool is_cache(const TensorInfo& input) {
  return contains(input.name, "past") ||
         (contains(input.name, "cache") && !contains(input.name, "position"));
}

// The dimension of a cache [batch, heads, past, depth] that grows.
size_t growing_axis(const TensorInfo& cache) {
  for (size_t d = 1; d < cache.dims.size(); ++d)
    if (cache.dims[d] < 0) return d;
  return cache.dims.size();
}

// Of fixed extents, which its output has, too.
Result<bool> is_static_cache(const TensorInfo& past, const std::vector<TensorInfo>& outputs,
                             const std::string& present) {
  if (past.has_rank && growing_axis(past) != past.dims.size()) return false;
  for (const TensorInfo& output : outputs)
    if (output.name == present && past.has_rank && past.dims.size() > 2 &&
        past.dims == output.dims && !past.is_dynamic())
      return true;
  return make_error(ErrorCode::kInvalidArgument,
                    "--decode: input {} has no dimension that grows, and is no static cache: "
                    "output {} has other extents",
                    past.name, present);
}

}  // namespace

Result<DecodeRequest> parse_decode(const std::string& text) {
  DecodeRequest request;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, request.prompt);
  const bool has_comma = first.ec == std::errc() && first.ptr != end && *first.ptr == ',';
  const auto second = has_comma ? std::from_chars(first.ptr + 1, end, request.steps) : first;
  constexpr int64_t kMost = 1 << 20;
  if (!has_comma || second.ec != std::errc() || second.ptr != end || request.prompt < 1 ||
      request.steps < 1 || request.prompt > kMost || request.steps > kMost)
    return make_error(ErrorCode::kInvalidArgument,
                      "--decode: '{}' is not PROMPT,STEPS, two numbers of tokens", text);
  return request;
}

Result<DecoderBindings> DecoderBindings::find(const std::vector<TensorInfo>& inputs,
                                              const std::vector<TensorInfo>& outputs) {
  DecoderBindings result;
  bool has_tokens = false, has_cache = false;
  std::vector<std::string> caches;
  for (const TensorInfo& info : inputs) {
    Input input{info, role_of(info), {}};
    if (is_cache(info)) {
      input.present = present_of(info.name, outputs);
      if (input.present.empty())
        return make_error(ErrorCode::kInvalidArgument,
                          "--decode: no output continues input {} (as present… does past…)",
                          info.name);
      CAMSHAFT_ASSIGN(input.is_static, is_static_cache(info, outputs, input.present));
      input.role = Role::kCache;
      caches.push_back(input.present);
      has_cache = true;
    }
    has_tokens |= input.role == Role::kTokens;
    result.inputs_.push_back(std::move(input));
  }
  for (const TensorInfo& output : outputs)
    if (std::find(caches.begin(), caches.end(), output.name) == caches.end() &&
        result.logits_.empty() && output.type == DataType::kFloat)
      result.logits_ = output.name;
  if (!has_tokens || !has_cache || result.logits_.empty())
    return make_error(ErrorCode::kInvalidArgument,
                      "--decode: a network with tokens and past keys and values as inputs is "
                      "needed, and logits and present ones as outputs");
  return result;
}

int64_t DecoderBindings::fixed_tokens() const {
  for (const Input& input : inputs_)
    if (input.role == Role::kTokens && !input.info.dims.empty())
      return std::max<int64_t>(input.info.dims[input.info.dims.size() > 1 ? 1 : 0], 0);
  return 0;
}

int64_t DecoderBindings::static_rows() const {
  for (const Input& input : inputs_)
    if (input.is_static) return input.info.dims[input.info.dims.size() - 2];
  return 0;
}

Status DecoderBindings::check(const DecodeRequest& request) const {
  if (fixed_tokens() > 1)
    return make_error(ErrorCode::kInvalidArgument,
                      "--decode: the network takes {} tokens at a time, and never one",
                      fixed_tokens());
  const int64_t rows = static_rows();
  if (rows != 0 && request.prompt + request.steps > rows)
    return make_error(ErrorCode::kInvalidArgument,
                      "--decode: {} tokens and {} more are not to be had: the caches have {} rows",
                      request.prompt, request.steps, rows);
  return ok_status();
}

Dims DecoderBindings::shape(size_t k, int64_t tokens, int64_t past) const {
  const Input& input = inputs_[k];
  Dims dims = input.info.dims;
  const size_t last = dims.size() - 1;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] >= 0) continue;
    dims[d] = 1;
    if (input.role == Role::kCache && d == growing_axis(input.info)) dims[d] = past;
    if (input.role == Role::kMask && d == last) dims[d] = past + tokens;
    const bool counts_tokens = input.role == Role::kTokens || input.role == Role::kPositions;
    if (counts_tokens && (d == 1 || (d == 0 && dims.size() == 1))) dims[d] = tokens;
  }
  return dims;
}

std::vector<OptimizationProfile> DecoderBindings::profiles(const DecodeRequest& request) const {
  OptimizationProfile prompt, step;
  const int64_t longest = request.prompt + request.steps;
  for (size_t k = 0; k < inputs_.size(); ++k) {
    if (!inputs_[k].info.is_dynamic()) continue;
    const std::string& name = inputs_[k].info.name;
    const Dims whole = shape(k, request.prompt, 0);
    prompt.push_back({name, whole, whole, whole});
    step.push_back({name, shape(k, 1, request.prompt),
                    shape(k, 1, request.prompt + request.steps / 2), shape(k, 1, longest)});
  }
  return {step, prompt};
}

namespace {

double now_ms() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

size_t element_bytes(const TensorInfo& info) {
  return info.type == DataType::kInt64 || info.type == DataType::kDouble  ? 8
         : info.type == DataType::kInt32 || info.type == DataType::kFloat ? 4
         : info.type == DataType::kBool                                   ? 1
                                                                          : 2;
}

size_t count(const Dims& dims) {
  return static_cast<size_t>(
      std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>()));
}

template <class T>
void fill_integers(std::vector<std::byte>& bytes, size_t elements, T first, T step) {
  bytes.resize(elements * sizeof(T));
  for (size_t k = 0; k < elements; ++k) {
    const T value = static_cast<T>(first + static_cast<T>(k) * step);
    std::memcpy(bytes.data() + k * sizeof(T), &value, sizeof(T));
  }
}

// Of a mask over the rows of a static cache: those behind the last token.
void hide_later_rows(const TensorInfo& mask, int64_t total, std::vector<std::byte>& bytes) {
  const int64_t rows = mask.dims.empty() ? 0 : mask.dims.back();
  if (rows <= total) return;
  const size_t row_bytes = static_cast<size_t>(rows) * element_bytes(mask),
               seen = static_cast<size_t>(total) * element_bytes(mask);
  for (size_t at = 0; at + row_bytes <= bytes.size(); at += row_bytes)
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at + seen), row_bytes - seen,
                std::byte{0});
}

// Whether a static cache may be input and output in one: one layer alone reads the one and makes
// the other, and it writes new rows.
bool is_written_in_place(std::span<const LayerInfo> layers, const DecoderBindings::Input& input) {
  const LayerInfo* reader = nullptr;
  for (const LayerInfo& layer : layers)
    for (size_t k = 0; k < layer.inputs.size(); ++k) {
      if (layer.inputs[k].name != input.info.name) continue;
      if (reader || k > 0) return false;
      reader = &layer;
    }
  return reader && reader->type == "Scatter" && reader->outputs.size() == 1 &&
         reader->outputs[0].name == input.present;
}

// One sequence. Each cache is one buffer where the engine can have it so; else it is there twice: a
// step reads one and writes the other.
class Sequence {
 public:
  Sequence(const DecoderBindings& bindings, const DecodeRequest& request,
           const std::vector<CacheInfo>& shared, std::span<const LayerInfo> layers)
      : bindings_(bindings) {
    const int64_t longest = request.prompt + request.steps;
    for (size_t k = 0; k < bindings.inputs().size(); ++k) {
      const DecoderBindings::Input& input = bindings.inputs()[k];
      values_.emplace_back();
      const bool is_cache = input.role == Role::kCache;
      const size_t bytes =
          is_cache ? count(bindings.shape(k, 1, longest)) * element_bytes(input.info) : 0;
      is_shared_.push_back(std::any_of(shared.begin(), shared.end(), [&](const CacheInfo& cache) {
        return cache.past == input.info.name && cache.present == input.present;
      }));
      is_in_place_.push_back(!is_shared_.back() && input.is_static &&
                             is_written_in_place(layers, input));
      const bool has_one = is_shared_.back() || is_in_place_.back();
      caches_[0].emplace_back(bytes);
      caches_[1].emplace_back(has_one ? 0 : bytes);
      cache_bytes_ += bytes * (has_one ? 1 : 2);
      num_caches_ += is_cache;
      num_shared_ += has_one;
    }
  }
  size_t cache_bytes() const { return cache_bytes_; }
  int caches() const { return num_caches_; }
  int shared_caches() const { return num_shared_; }

  // Binds `tokens` after `past` earlier ones.
  Status bind(Context& context, const std::vector<int64_t>& tokens, int64_t past) {
    const auto fresh = static_cast<int64_t>(tokens.size());
    for (size_t k = 0; k < values_.size(); ++k) {
      const DecoderBindings::Input& input = bindings_.inputs()[k];
      const Dims dims = bindings_.shape(k, fresh, past);
      if (input.info.is_dynamic()) CAMSHAFT_TRY(context.set_shape(input.info.name, dims));
      if (input.role == Role::kCache) {
        CAMSHAFT_TRY(bind_cache(context, k, dims));
        continue;
      }
      fill(k, count(dims), tokens, past);
      CAMSHAFT_TRY(context.set_input(input.info.name, values_[k].data(), values_[k].size()));
    }
    return ok_status();
  }
  void turn() { side_ = 1 - side_; }

 private:
  Status bind_cache(Context& context, size_t k, const Dims& past) {
    const DecoderBindings::Input& input = bindings_.inputs()[k];
    if (is_in_place_[k]) {
      CAMSHAFT_TRY(context.set_input(input.info.name, caches_[0][k].data(), caches_[0][k].size()));
      return context.set_output(input.present, caches_[0][k].data(), caches_[0][k].size());
    }
    if (is_shared_[k])
      return context.set_cache(input.info.name, input.present, caches_[0][k].data(),
                               caches_[0][k].size());
    std::vector<std::byte>&from = caches_[side_][k], &to = caches_[1 - side_][k];
    CAMSHAFT_TRY(
        context.set_input(input.info.name, from.data(), count(past) * element_bytes(input.info)));
    return context.set_output(input.present, to.data(), to.size());
  }

  void fill(size_t k, size_t elements, const std::vector<int64_t>& tokens, int64_t past) {
    const DecoderBindings::Input& input = bindings_.inputs()[k];
    const auto total = past + static_cast<int64_t>(tokens.size());
    int64_t first = 1, step = 0;  // masks and flags
    if (input.role == Role::kPositions) first = past, step = 1;
    if (input.role == Role::kTotal) first = total;
    if (input.role == Role::kLengths) first = total - 1;
    if (input.role == Role::kPast) first = past;
    std::vector<std::byte>& bytes = values_[k];
    switch (input.info.type) {
      case DataType::kInt32:
        fill_integers<int32_t>(bytes, elements, static_cast<int32_t>(first),
                               static_cast<int32_t>(step));
        break;
      case DataType::kFloat:
        fill_integers<float>(bytes, elements, static_cast<float>(first), static_cast<float>(step));
        break;
      case DataType::kBool:
        fill_integers<uint8_t>(bytes, elements, 1, 0);
        break;
      default:
        fill_integers<int64_t>(bytes, elements, first, step);
    }
    if (input.role == Role::kMask) hide_later_rows(input.info, total, bytes);
    if (input.role != Role::kTokens) return;
    for (size_t t = 0; t < std::min(elements, tokens.size()); ++t) {
      const auto narrow = static_cast<int32_t>(tokens[t]);
      if (input.info.type == DataType::kInt64)
        std::memcpy(bytes.data() + t * 8, &tokens[t], 8);
      else if (input.info.type == DataType::kInt32)
        std::memcpy(bytes.data() + t * 4, &narrow, 4);
    }
  }

  const DecoderBindings& bindings_;
  std::vector<std::vector<std::byte>> values_;
  std::vector<std::vector<std::byte>> caches_[2];
  std::vector<bool> is_shared_;    // by Context::set_cache()
  std::vector<bool> is_in_place_;  // input and output in one
  size_t cache_bytes_ = 0;
  int num_caches_ = 0, num_shared_ = 0;
  int side_ = 0;
};

// The most likely token after the last one.
Result<int64_t> next_token(const Context& context, const std::string& logits) {
  CAMSHAFT_ASSIGN(const TensorView view, context.output(logits));
  const auto vocabulary = static_cast<size_t>(view.dims.back());
  const auto* values = static_cast<const float*>(view.data);
  const float* last = values + count(view.dims) - vocabulary;
  return static_cast<int64_t>(std::max_element(last, last + vocabulary) - last);
}

// What all threads together read from memory.
double read_rate(int threads) {
  constexpr double kSeconds = 0.2;
  std::vector<double> rates(static_cast<size_t>(threads));
  std::vector<std::thread> others;
  for (size_t k = 1; k < rates.size(); ++k)
    others.emplace_back([&rates, k] { rates[k] = kernels::measure_read_bandwidth(kSeconds); });
  rates[0] = kernels::measure_read_bandwidth(kSeconds);
  for (std::thread& other : others) other.join();
  return std::accumulate(rates.begin(), rates.end(), 0.0);
}

// Constants of the layers that multiply by them: tables and masks are read a row at a time.
double weights_read(std::span<const LayerInfo> layers) {
  double bytes = 0;
  for (const LayerInfo& layer : layers)
    if (layer.macs != 0 && layer.type != "Attention") bytes += layer.weight_bytes;
  return bytes;
}

// At once, or so many tokens at a time.
Status run_prompt(Context& context, Sequence& sequence, const std::vector<int64_t>& tokens,
                  int64_t fixed) {
  const size_t part = fixed > 0 ? static_cast<size_t>(fixed) : tokens.size();
  for (size_t past = 0; past < tokens.size(); past += part) {
    const auto first = tokens.begin() + static_cast<std::ptrdiff_t>(past);
    CAMSHAFT_TRY(sequence.bind(context, {first, first + static_cast<std::ptrdiff_t>(part)},
                               static_cast<int64_t>(past)));
    CAMSHAFT_TRY(context.run());
    sequence.turn();
  }
  return ok_status();
}

}  // namespace

Result<DecodeResult> run_decode(const Engine& engine, const DecoderBindings& bindings,
                                const DecodeRequest& request, int threads) {
  const int profiles = static_cast<int>(engine.profiles().size());
  ContextOptions options;
  options.threads = threads;
  CAMSHAFT_ASSIGN(Context steps, Context::create(engine, options));
  options.profile = profiles > 1 ? 1 : 0;
  CAMSHAFT_ASSIGN(Context prompt, Context::create(engine, options));
  DecodeResult result;
  result.threads = steps.threads();
  const Inspector inspector(engine, steps);
  Sequence sequence(bindings, request, steps.caches(), inspector.layers());
  result.buffer_bytes = static_cast<double>(sequence.cache_bytes());
  result.caches = sequence.caches();
  result.shared_caches = sequence.shared_caches();

  std::vector<int64_t> tokens;
  for (int64_t k = 0; k < request.prompt; ++k) tokens.push_back(k % 97 + 3);
  for (double* time : {&result.first_planned_ms, &result.first_ms}) {
    const double start = now_ms();
    CAMSHAFT_TRY(run_prompt(prompt, sequence, tokens, bindings.fixed_tokens()));
    CAMSHAFT_ASSIGN(const int64_t token, next_token(prompt, bindings.logits()));
    *time = now_ms() - start;
    result.tokens = {token};
  }

  const double before = read_rate(result.threads);
  for (int64_t step = 0; step < request.steps; ++step) {
    const double start = now_ms();
    CAMSHAFT_TRY(sequence.bind(steps, {result.tokens.back()}, request.prompt + step));
    CAMSHAFT_TRY(steps.output_shape(bindings.logits()).status());  // plans for the length
    const double planned = now_ms();
    CAMSHAFT_TRY(steps.run());
    CAMSHAFT_ASSIGN(const int64_t token, next_token(steps, bindings.logits()));
    result.token_ms.push_back(now_ms() - start);
    result.plan_ms.push_back(planned - start);
    result.tokens.push_back(token);
    sequence.turn();
    if (interrupted()) break;
  }
  result.read_gbytes = std::max(before, read_rate(result.threads));
  result.weight_bytes = weights_read(inspector.layers());
  const int64_t mean_length = request.prompt + static_cast<int64_t>(result.token_ms.size()) / 2;
  for (size_t k = 0; k < bindings.inputs().size(); ++k)
    if (bindings.inputs()[k].role == Role::kCache)
      result.cache_bytes += static_cast<double>(count(bindings.shape(k, 1, mean_length)) *
                                                element_bytes(bindings.inputs()[k].info));
  return result;
}

namespace {

struct Rates {
  Summary token, plan;
  double tokens_per_second = 0, gbytes = 0, percent = 0;

  explicit Rates(const DecodeResult& result)
      : token(summarize(result.token_ms, {90, 99})), plan(summarize(result.plan_ms, {90, 99})) {
    const double bytes = result.weight_bytes + result.cache_bytes;
    tokens_per_second = token.mean > 0 ? 1e3 / token.mean : 0;
    gbytes = token.median > 0 ? bytes / token.median / 1e6 : 0;
    percent = result.read_gbytes > 0 ? gbytes / result.read_gbytes * 100 : 0;
  }
};

}  // namespace

void print_decode(const DecodeRequest& request, const DecodeResult& result) {
  const Rates rates(result);
  fmt::print(
      "prompt      {} tokens, first token after {:.2f} ms ({:.0f} tokens/s; {:.2f} ms the "
      "first time)\n",
      request.prompt, result.first_ms, static_cast<double>(request.prompt) / result.first_ms * 1e3,
      result.first_planned_ms);
  fmt::print(
      "generation  {} tokens, {:.1f} tokens/s, {:.3f} ms each (median; p90 {:.3f}), {:.3f} "
      "of these for the plan of a new length\n",
      result.token_ms.size(), rates.tokens_per_second, rates.token.median,
      rates.token.percentiles[0], rates.plan.median);
  fmt::print(
      "memory      {} of weights and {} of keys and values per token: {:.2f} GB/s, {:.0f} % "
      "of the {:.2f} GB/s that {} thread{} read{} beside it\n",
      human_bytes(result.weight_bytes), human_bytes(result.cache_bytes), rates.gbytes,
      rates.percent, result.read_gbytes, result.threads, result.threads == 1 ? "" : "s",
      result.threads == 1 ? "s" : "");
  fmt::print(
      "buffers     {} for keys and values of {} tokens; {} of {} caches in one buffer each\n",
      human_bytes(result.buffer_bytes), request.prompt + request.steps, result.shared_caches,
      result.caches);
}

std::string decode_json(const DecodeRequest& request, const DecodeResult& result) {
  const Rates rates(result);
  const nlohmann::ordered_json json = {{"prompt", request.prompt},
                                       {"steps", result.token_ms.size()},
                                       {"threads", result.threads},
                                       {"timeToFirstTokenMs", result.first_ms},
                                       {"timeToFirstTokenPlannedMs", result.first_planned_ms},
                                       {"tokensPerSecond", rates.tokens_per_second},
                                       {"tokenMs",
                                        {{"median", rates.token.median},
                                         {"mean", rates.token.mean},
                                         {"p90", rates.token.percentiles[0]},
                                         {"p99", rates.token.percentiles[1]}}},
                                       {"planMs", rates.plan.median},
                                       {"weightBytes", result.weight_bytes},
                                       {"cacheBytes", result.cache_bytes},
                                       {"bufferBytes", result.buffer_bytes},
                                       {"caches", result.caches},
                                       {"sharedCaches", result.shared_caches},
                                       {"gbytesPerSecond", rates.gbytes},
                                       {"readGbytesPerSecond", result.read_gbytes},
                                       {"percentOfRead", rates.percent},
                                       {"tokens", result.tokens}};
  return json.dump(2) + "\n";
}

}  // namespace camshaft::cli
