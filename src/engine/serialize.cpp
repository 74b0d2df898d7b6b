// SPDX-License-Identifier: Apache-2.0
// EngineParts to bytes: the plan as a FlatBuffer behind the weights, a header with checksums in
// front of them.
#include <cstring>
#include <fstream>

#include <unistd.h>

#include "engine/attributes.h"
#include "engine/engine.h"
#include "engine/file_format.h"
#include "engine/hash.h"

namespace camshaft::engine {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

std::vector<int64_t> codes(std::span<const ir::Dim> dims) {
  std::vector<int64_t> list;
  for (const ir::Dim dim : dims) list.push_back(dim_code(dim));
  return list;
}

Offset<fb::Symbol> store(FlatBufferBuilder& b, const ir::Symbol& s) {
  return fb::CreateSymbol(b, static_cast<uint8_t>(s.op), dim_code(s.a), dim_code(s.b), s.constant,
                          b.CreateSharedString(s.name));
}

Offset<fb::Tensor> store(FlatBufferBuilder& b, const PlanTensor& t) {
  const auto name = b.CreateString(t.name);
  const auto shape = b.CreateVector(codes(t.shape));
  const auto value = t.value ? b.CreateVector(codes(*t.value)) : 0;
  return fb::CreateTensor(b, name, static_cast<uint8_t>(t.type), static_cast<uint8_t>(t.format),
                          static_cast<uint8_t>(t.role), t.has_rank, shape, t.data_offset,
                          t.data_bytes, t.parent, t.parent_axis, dim_code(t.parent_offset),
                          t.value.has_value(), value, t.scale.empty() ? 0 : b.CreateVector(t.scale),
                          t.zero_point.empty() ? 0 : b.CreateVector(t.zero_point));
}

Offset<fb::Candidate> store(FlatBufferBuilder& b, const Candidate& c) {
  const auto tactic = b.CreateSharedString(c.tactic), formats = b.CreateSharedString(c.formats);
  return fb::CreateCandidate(b, tactic, formats, c.time_us, b.CreateSharedString(c.refusal),
                             c.chosen);
}

// Declared first: store_all() below finds them all.
Offset<fb::Step> store(FlatBufferBuilder& b, const PlanStep& s);
Offset<fb::RegionBorder> store(FlatBufferBuilder& b, const RegionBorder& border);
Offset<fb::Region> store(FlatBufferBuilder& b, const Region& region);
Offset<fb::Plan> store(FlatBufferBuilder& b, const Plan& plan);
Offset<fb::ShapeRange> store(FlatBufferBuilder& b, const ShapeRange& r);
Offset<fb::Profile> store(FlatBufferBuilder& b, const Profile& p);
Offset<fb::Rewrite> store(FlatBufferBuilder& b, const ir::RewriteRecord& r);
Offset<fb::LayerCount> store(FlatBufferBuilder& b, const std::pair<std::string, int>& count);

template <class List>
auto store_all(FlatBufferBuilder& b, const List& list) {
  std::vector<decltype(store(b, list[0]))> offsets;
  offsets.reserve(list.size());
  for (const auto& item : list) offsets.push_back(store(b, item));
  return b.CreateVector(offsets);
}

Offset<fb::Step> store(FlatBufferBuilder& b, const PlanStep& s) {
  std::vector<Offset<fb::Plan>> body_offsets;
  for (const auto& body : s.bodies) body_offsets.push_back(store(b, *body));
  const auto name = b.CreateString(s.layer.name);
  const auto attributes = store_attributes(b, s.layer.attrs);
  const auto nodes = b.CreateVectorOfStrings(s.layer.onnx_nodes);
  const auto lineage = b.CreateVector(s.layer.lineage);
  const auto inputs = b.CreateVector(s.inputs), outputs = b.CreateVector(s.outputs);
  const auto tactic = b.CreateSharedString(s.tactic);
  const auto bodies = b.CreateVector(body_offsets);
  const auto candidates = store_all(b, s.candidates);
  const auto arithmetic = s.arithmetic.empty() ? 0 : b.CreateSharedString(s.arithmetic);
  const ir::WeightSparsity& zeros = s.sparsity;
  const auto sparsity = zeros.weights == 0 ? 0
                                           : fb::CreateSparsity(b, zeros.weights, zeros.nonzeros,
                                                                zeros.groups, zeros.full_groups);
  fb::StepBuilder step(b);
  step.add_kind(static_cast<uint8_t>(s.layer.kind));
  step.add_name(name);
  step.add_attributes(attributes);
  step.add_onnx_nodes(nodes);
  step.add_lineage(lineage);
  step.add_inputs(inputs);
  step.add_outputs(outputs);
  step.add_tactic(tactic);
  step.add_tactic_version(s.tactic_version);
  step.add_isa(static_cast<uint8_t>(s.isa));
  step.add_tactic_value(s.tactic_value);
  step.add_packed_inputs(s.packed_inputs);
  step.add_packed_offset(s.packed_offset);
  step.add_packed_bytes(s.packed_bytes);
  step.add_is_view(s.is_view);
  step.add_dynamic_output(s.dynamic_output);
  step.add_bodies(bodies);
  step.add_candidates(candidates);
  step.add_build_time_us(s.build_time_us);
  step.add_threads(static_cast<uint16_t>(s.threads));
  if (!s.arithmetic.empty()) step.add_arithmetic(arithmetic);
  if (zeros.weights > 0) step.add_sparsity(sparsity);
  return step.Finish();
}

Offset<fb::RegionBorder> store(FlatBufferBuilder& b, const RegionBorder& border) {
  return fb::CreateRegionBorder(b, border.tensor, border.step, b.CreateSharedString(border.reason));
}

Offset<fb::Region> store(FlatBufferBuilder& b, const Region& region) {
  const auto name = b.CreateString(region.name), reason = b.CreateString(region.reason);
  const auto steps = b.CreateVector(region.steps);
  const auto before = store_all(b, region.before), after = store_all(b, region.after);
  return fb::CreateRegion(b, name, steps, reason, before, after);
}

Offset<fb::Plan> store(FlatBufferBuilder& b, const Plan& plan) {
  std::vector<ir::Symbol> symbols;
  symbols.reserve(plan.symbols.size());
  for (int k = 0; k < plan.symbols.size(); ++k) symbols.push_back(plan.symbols.symbol(k));
  const auto name = b.CreateString(plan.name);
  const auto symbol_list = store_all(b, symbols);
  const auto tensors = store_all(b, plan.tensors);
  const auto steps = store_all(b, plan.steps);
  const auto inputs = b.CreateVector(plan.inputs), outputs = b.CreateVector(plan.outputs);
  const auto regions = plan.regions.empty() ? 0 : store_all(b, plan.regions);
  return fb::CreatePlan(b, name, symbol_list, tensors, steps, inputs, outputs, regions);
}

template <class List>
auto vector_of(FlatBufferBuilder& b, const List& list) {
  return b.CreateVector(list.data(), list.size());
}

Offset<fb::ShapeRange> store(FlatBufferBuilder& b, const ShapeRange& r) {
  const auto input = b.CreateString(r.input);
  const auto low = vector_of(b, r.min), opt = vector_of(b, r.opt), high = vector_of(b, r.max);
  return fb::CreateShapeRange(b, input, low, opt, high);
}

Offset<fb::Profile> store(FlatBufferBuilder& b, const Profile& p) {
  return fb::CreateProfile(b, store_all(b, p));
}

Offset<fb::Rewrite> store(FlatBufferBuilder& b, const ir::RewriteRecord& r) {
  std::vector<Offset<flatbuffers::String>> layers;
  for (const std::string& layer : r.layers) layers.push_back(b.CreateSharedString(layer));
  return fb::CreateRewrite(b, static_cast<uint8_t>(r.action), b.CreateSharedString(r.pass),
                           b.CreateVector(layers), r.subject, b.CreateString(r.text),
                           static_cast<uint8_t>(r.reason));
}

Offset<fb::LayerCount> store(FlatBufferBuilder& b, const std::pair<std::string, int>& count) {
  return fb::CreateLayerCount(b, b.CreateString(count.first), count.second);
}

Offset<fb::Record> store(FlatBufferBuilder& b, const BuildRecord& r) {
  const auto rewrites = store_all(b, r.rewrites);
  const auto counts = store_all(b, r.layer_counts);
  const auto version = b.CreateString(r.builder_version), model = b.CreateString(r.cpu_model);
  const auto fingerprint = b.CreateString(r.cpu_fingerprint), name = b.CreateString(r.model_name);
  return fb::CreateRecord(b, rewrites, counts, version, model, fingerprint, name, r.threads,
                          r.peak_gmacs, r.read_gbytes, r.byte_peak_gmacs, r.bf16_peak_gmacs);
}

uint32_t required_isa(const Plan& plan) {
  uint32_t isa = 0;
  for (const PlanStep& step : plan.steps) {
    isa = std::max(isa, static_cast<uint32_t>(step.isa));
    for (const auto& body : step.bodies) isa = std::max(isa, required_isa(*body));
  }
  return isa;
}

}  // namespace

GrowingBytes serialize(EngineParts parts) {
  FlatBufferBuilder builder(1 << 16);
  const auto plan = store(builder, parts.plan);
  const auto profiles = store_all(builder, parts.profiles);
  const auto record = store(builder, parts.record);
  builder.Finish(
      fb::CreateEngine(builder, plan, profiles, record, static_cast<uint8_t>(parts.verbosity)));
  const auto plan_bytes = std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));

  FileHeader header = {};
  std::copy(std::begin(kMagic), std::end(kMagic), header.magic);
  header.format_version = kFormatVersion;
  header.header_bytes = kHeaderBytes;
  header.required_isa = required_isa(parts.plan);
  header.layout = own_layout();
  header.weights_offset = kSectionAlignment;
  header.weights_bytes = parts.weights.bytes();
  header.weights_hash = hash_chunks(parts.weights.section(), default_num_threads());
  GrowingBytes file = std::move(parts.weights).take();
  file.append(-file.size() % kSectionAlignment);
  header.plan_offset = file.size();
  header.plan_bytes = plan_bytes.size();
  header.plan_hash = hash_bytes(plan_bytes);
  std::memcpy(file.append(plan_bytes.size()), plan_bytes.data(), plan_bytes.size());
  header.file_bytes = file.size();
  header.header_hash = hash_of(header);
  write_header(header, file.data());
  return file;
}

Status save(std::span<const std::byte> bytes, const std::filesystem::path& file) {
  std::error_code error;
  // A device or a pipe is written to, not replaced.
  const bool in_place = std::filesystem::exists(file, error) &&
                        !std::filesystem::is_regular_file(file, error) &&
                        !std::filesystem::is_directory(file, error);
  const std::filesystem::path temporary =
      in_place ? file.string() : file.string() + fmt::format(".{}.part", getpid());
  {
    std::ofstream stream(temporary, std::ios::binary);
    stream.write(reinterpret_cast<const char*>(bytes.data()),
                 static_cast<std::streamsize>(bytes.size()));
    stream.close();
    if (!stream) {
      std::error_code ignored;
      if (!in_place) std::filesystem::remove(temporary, ignored);
      return make_error(ErrorCode::kIo, "{}: cannot write the engine", file.string());
    }
  }
  if (in_place) return ok_status();
  std::filesystem::rename(temporary, file, error);
  if (error) {
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
    return make_error(ErrorCode::kIo, "{}: {}", file.string(), error.message());
  }
  return ok_status();
}

}  // namespace camshaft::engine
