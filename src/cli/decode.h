// SPDX-License-Identifier: Apache-2.0
// Generation with a decoder network: a prompt at once, then token after token with the keys and
// values of those before. Caches grow by the new rows, or have a fixed number of them (static
// caches), of which the network writes those of the new tokens.
#pragma once

#include <string>
#include <vector>

#include "cli/session.h"

namespace camshaft::cli {

struct DecodeRequest {
  int64_t prompt = 0, steps = 0;
};
Result<DecodeRequest> parse_decode(const std::string& text);  // "PROMPT,STEPS"

// What the inputs and outputs of a decoder are for, told from their names and symbols.
class DecoderBindings {
 public:
  enum class Role : uint8_t { kTokens, kPositions, kMask, kCache, kFlag, kTotal, kLengths, kPast };
  struct Input {
    TensorInfo info;
    Role role = Role::kTokens;
    std::string present;     // of a cache: the output that continues it
    bool is_static = false;  // a cache of as many rows before as behind
  };

  // kInvalidArgument: a decoder it is not, and why.
  static Result<DecoderBindings> find(const std::vector<TensorInfo>& inputs,
                                      const std::vector<TensorInfo>& outputs);

  const std::vector<Input>& inputs() const { return inputs_; }
  const std::string& logits() const { return logits_; }
  // Tokens that a run takes where their number is fixed, else 0.
  int64_t fixed_tokens() const;
  // Rows that static caches have, else 0.
  int64_t static_rows() const;
  // Whether so many tokens can be generated; kInvalidArgument: why not.
  Status check(const DecodeRequest& request) const;
  // The extents of input k for `tokens` new tokens after `past` ones.
  Dims shape(size_t k, int64_t tokens, int64_t past) const;
  // One profile for the prompt and one for the steps.
  std::vector<OptimizationProfile> profiles(const DecodeRequest& request) const;

 private:
  std::vector<Input> inputs_;
  std::string logits_;
};

struct DecodeResult {
  double first_ms = 0;          // prompt to first token, the shapes being known
  double first_planned_ms = 0;  // the same for shapes that are new
  std::vector<double> token_ms;
  std::vector<double> plan_ms;        // of these, shapes and memory
  double weight_bytes = 0;            // read for a token
  double cache_bytes = 0;             // keys and values, at the mean length
  double buffer_bytes = 0;            // of memory for keys and values
  int caches = 0, shared_caches = 0;  // shared: one buffer for past and present
  double read_gbytes = 0;             // what all threads read from memory, measured beside it
  int threads = 1;
  std::vector<int64_t> tokens;
};
Result<DecodeResult> run_decode(const Engine& engine, const DecoderBindings& bindings,
                                const DecodeRequest& request, int threads);

void print_decode(const DecodeRequest& request, const DecodeResult& result);
std::string decode_json(const DecodeRequest& request, const DecodeResult& result);

}  // namespace camshaft::cli
