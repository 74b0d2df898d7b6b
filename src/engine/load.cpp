// SPDX-License-Identifier: Apache-2.0
// Bytes to an Engine: header, checksums, FlatBuffers verifier, then every number into the plan
// structures.
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/huge_pages.h"
#include "base/topology.h"
#include "engine/attributes.h"
#include "engine/engine.h"
#include "engine/file_format.h"
#include "engine/hash.h"
#include "engine/stored_list.h"
#include "engine/verify_plan.h"
#include "ir/kind_traits.h"

namespace camshaft::engine {

// The file's bytes: mapped or copied, page aligned; or somebody else's.
struct Storage {
  const std::byte* data = nullptr;
  size_t bytes = 0;
  std::shared_ptr<const void> owner;  // null: unmapped here

  Storage() = default;
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  ~Storage() {
    if (data && !owner) munmap(const_cast<std::byte*>(data), bytes);
  }
};

namespace {

Status map_file(const std::filesystem::path& file, Storage& storage) {
  const InterleavedMemory interleaved;
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    return make_error(ErrorCode::kIo, "{}: {}", file.string(), std::strerror(errno));
  struct stat facts = {};
  const bool regular = fstat(descriptor, &facts) == 0 && S_ISREG(facts.st_mode);
  void* address = MAP_FAILED;
  if (regular && facts.st_size > 0)
    address = mmap(nullptr, facts.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, descriptor, 0);
  close(descriptor);
  if (!regular) return make_error(ErrorCode::kIo, "{}: not a regular file", file.string());
  if (facts.st_size == 0) return corrupt("{}: the file is empty", file.string());
  if (address == MAP_FAILED)
    return make_error(ErrorCode::kIo, "{}: {}", file.string(), std::strerror(errno));
  storage.data = static_cast<const std::byte*>(address);
  storage.bytes = facts.st_size;
  return ok_status();
}

Status copy_bytes(std::span<const std::byte> bytes, Storage& storage) {
  const InterleavedMemory interleaved;
  if (bytes.empty()) return corrupt("no bytes");
  std::byte* memory = map_zeros(bytes.size());
  if (!memory) return make_error(ErrorCode::kIo, "no memory for {} bytes", bytes.size());
  std::memcpy(memory, bytes.data(), bytes.size());
  storage.data = memory;
  storage.bytes = bytes.size();
  return ok_status();
}

Status check_header(const Storage& storage, FileHeader& header) {
  if (storage.bytes < sizeof kMagic || std::memcmp(storage.data, kMagic, sizeof kMagic) != 0)
    return corrupt("not a Camshaft engine");
  if (storage.bytes < kHeaderBytes)
    return corrupt("the file is truncated: {} bytes", storage.bytes);
  header = read_header(storage.data);
  if (header.format_version != kFormatVersion)
    return corrupt("engine format {}, this version reads {}: build the engine again",
                   header.format_version, kFormatVersion);
  if (header.header_bytes != kHeaderBytes || header.header_hash != hash_of(header))
    return corrupt("the header is damaged");
  if (header.layout != own_layout())
    return corrupt(
        "engine format {} of layout {:08x}, this build reads {:08x}: build the engine again",
        header.format_version, header.layout, own_layout());
  if (header.file_bytes != storage.bytes)
    return corrupt("the file is {}: {} of {} bytes",
                   header.file_bytes > storage.bytes ? "truncated" : "too long", storage.bytes,
                   header.file_bytes);
  const auto inside = [&](uint64_t offset, uint64_t bytes) {
    return offset % kSectionAlignment == 0 && offset <= storage.bytes &&
           bytes <= storage.bytes - offset;
  };
  if (!inside(header.plan_offset, header.plan_bytes) ||
      !inside(header.weights_offset, header.weights_bytes) || header.required_isa >= kIsaCount)
    return corrupt("the header is inconsistent");
  return ok_status();
}

Status check_sections(const Storage& storage, const FileHeader& header) {
  if (hash_bytes({storage.data + header.plan_offset, header.plan_bytes}) != header.plan_hash)
    return corrupt("the plan is damaged (checksum)");
  // The gaps between sections are zero, so that no byte of the file goes unchecked.
  const auto zero = [&](size_t first, size_t last) {
    for (size_t k = first; k < last; ++k)
      if (storage.data[k] != std::byte{0}) return false;
    return true;
  };
  if (!zero(kHeaderBytes, header.weights_offset) ||
      !zero(header.weights_offset + header.weights_bytes, header.plan_offset))
    return corrupt("the padding is damaged");
  const auto weights = std::span(storage.data + header.weights_offset, header.weights_bytes);
  if (hash_chunks(weights, default_num_threads()) != header.weights_hash)
    return corrupt("the weights are damaged (checksum)");
  return ok_status();
}

// --- FlatBuffers tables to plan structures. A required vector or string that is absent reads as
// empty.
std::string text(const flatbuffers::String* s) {
  return s ? s->str() : std::string();
}

Result<ir::Extents> extents(const flatbuffers::Vector<int64_t>* v) {
  if (v && v->size() > ir::kMaxRank) return corrupt("a profile of rank {}", v->size());
  const std::vector<int64_t> list = stored_list(v);
  return ir::Extents(list.begin(), list.end());
}

Status read_symbols(const fb::Plan& stored, ir::SymbolTable& symbols) {
  if (!stored.symbols()) return ok_status();
  for (const fb::Symbol* s : *stored.symbols()) {
    if (s->op() >= ir::kSymbolOpCount) return corrupt("symbol operator {}", s->op());
    ir::Symbol symbol;
    symbol.op = static_cast<ir::SymbolOp>(s->op());
    // Of earlier ones only: the table works out at once what a symbol is.
    CAMSHAFT_ASSIGN(symbol.a, dim_from_code(s->a(), symbols.size()));
    CAMSHAFT_ASSIGN(symbol.b, dim_from_code(s->b(), symbols.size()));
    symbol.constant = s->constant();
    symbol.name = text(s->name());
    symbols.append(std::move(symbol));
  }
  return ok_status();
}

Result<PlanTensor> read_tensor(const fb::Tensor& stored, int num_symbols) {
  PlanTensor t;
  t.name = text(stored.name());
  if (stored.type() > static_cast<uint8_t>(ir::DataType::kUInt4) ||
      stored.format() > static_cast<uint8_t>(ir::Format::kChannelLast) ||
      stored.role() > static_cast<uint8_t>(TensorRole::kActivation))
    return corrupt("tensor {}: type {}, format {}, role {}", t.name, stored.type(), stored.format(),
                   stored.role());
  t.type = static_cast<ir::DataType>(stored.type());
  t.format = static_cast<ir::Format>(stored.format());
  t.role = static_cast<TensorRole>(stored.role());
  t.has_rank = stored.has_rank();
  CAMSHAFT_ASSIGN(t.shape, shape_from_codes(stored.shape(), num_symbols));
  t.data_offset = stored.data_offset();
  t.data_bytes = stored.data_bytes();
  t.parent = stored.parent();
  t.parent_axis = stored.parent_axis();
  CAMSHAFT_ASSIGN(t.parent_offset, dim_from_code(stored.parent_offset(), num_symbols));
  for (const float scale : stored_list(stored.scale())) t.scale.push_back(scale);
  for (const int32_t zero_point : stored_list(stored.zero_point()))
    t.zero_point.push_back(zero_point);
  if (!stored.has_value()) return t;
  t.value.emplace();
  for (const int64_t code : stored_list(stored.value())) {
    CAMSHAFT_ASSIGN(const ir::Dim dim, dim_from_code(code, num_symbols));
    t.value->push_back(dim);
  }
  return t;
}

Result<Plan> read_plan(const fb::Plan& stored, int depth);

Result<PlanStep> read_step(const fb::Step& stored, int num_symbols, int depth) {
  PlanStep step;
  step.layer.name = text(stored.name());
  if (stored.kind() >= ir::kLayerKinds || stored.isa() >= kIsaCount)
    return corrupt("layer {}: kind {}, instruction set {}", step.layer.name, stored.kind(),
                   stored.isa());
  step.layer.kind = static_cast<ir::LayerKind>(stored.kind());
  Result<ir::Attrs> attrs = read_attributes(step.layer.kind, stored.attributes(), num_symbols);
  if (!attrs.ok()) return attrs.status().with_context("layer " + step.layer.name);
  step.layer.attrs = std::move(attrs).value();
  if (stored.onnx_nodes())
    for (const auto* node : *stored.onnx_nodes()) step.layer.onnx_nodes.push_back(node->str());
  step.layer.lineage = stored_list(stored.lineage());
  step.inputs = stored_list(stored.inputs());
  step.outputs = stored_list(stored.outputs());
  step.tactic = text(stored.tactic());
  step.tactic_version = stored.tactic_version();
  step.isa = static_cast<Isa>(stored.isa());
  step.tactic_value = stored.tactic_value();
  step.packed_inputs = stored.packed_inputs();
  step.packed_offset = stored.packed_offset();
  step.packed_bytes = stored.packed_bytes();
  step.is_view = stored.is_view();
  step.dynamic_output = stored.dynamic_output();
  step.build_time_us = stored.build_time_us();
  step.threads = stored.threads();
  step.arithmetic = text(stored.arithmetic());
  if (const fb::Sparsity* zeros = stored.sparsity())
    step.sparsity = {zeros->weights(), zeros->nonzeros(), zeros->groups(), zeros->full_groups()};
  if (stored.candidates())
    for (const fb::Candidate* c : *stored.candidates())
      step.candidates.push_back(
          {text(c->tactic()), text(c->formats()), c->time_us(), text(c->refusal()), c->chosen()});
  if (stored.bodies()) {
    for (const fb::Plan* body : *stored.bodies()) {
      CAMSHAFT_ASSIGN(Plan plan, read_plan(*body, depth + 1));
      step.bodies.push_back(std::make_shared<const Plan>(std::move(plan)));
    }
  }
  return step;
}

std::vector<RegionBorder> read_borders(
    const flatbuffers::Vector<flatbuffers::Offset<fb::RegionBorder>>* stored) {
  std::vector<RegionBorder> borders;
  if (!stored) return borders;
  for (const fb::RegionBorder* border : *stored)
    borders.push_back({border->tensor(), border->step(), text(border->reason())});
  return borders;
}

std::vector<Region> read_regions(const fb::Plan& stored) {
  std::vector<Region> regions;
  if (!stored.regions()) return regions;
  for (const fb::Region* r : *stored.regions())
    regions.push_back({text(r->name()), stored_list(r->steps()), text(r->reason()),
                       read_borders(r->before()), read_borders(r->after())});
  return regions;
}

Result<Plan> read_plan(const fb::Plan& stored, int depth) {
  if (depth > 16) return corrupt("bodies nested {} deep", depth);
  Plan plan;
  plan.name = text(stored.name());
  CAMSHAFT_TRY(read_symbols(stored, plan.symbols));
  if (stored.tensors()) {
    for (const fb::Tensor* tensor : *stored.tensors()) {
      CAMSHAFT_ASSIGN(PlanTensor t, read_tensor(*tensor, plan.symbols.size()));
      plan.tensors.push_back(std::move(t));
    }
  }
  if (stored.steps()) {
    plan.steps.reserve(stored.steps()->size());
    for (const fb::Step* step : *stored.steps()) {
      CAMSHAFT_ASSIGN(PlanStep s, read_step(*step, plan.symbols.size(), depth));
      plan.steps.push_back(std::move(s));
    }
  }
  plan.inputs = stored_list(stored.inputs());
  plan.outputs = stored_list(stored.outputs());
  plan.regions = read_regions(stored);
  return plan;
}

Result<std::vector<Profile>> read_profiles(const fb::Engine& stored) {
  std::vector<Profile> profiles;
  if (!stored.profiles()) return profiles;
  for (const fb::Profile* p : *stored.profiles()) {
    Profile profile;
    if (p->ranges()) {
      for (const fb::ShapeRange* r : *p->ranges()) {
        ShapeRange range{text(r->input()), {}, {}, {}};
        CAMSHAFT_ASSIGN(range.min, extents(r->min()));
        CAMSHAFT_ASSIGN(range.opt, extents(r->opt()));
        CAMSHAFT_ASSIGN(range.max, extents(r->max()));
        profile.push_back(std::move(range));
      }
    }
    profiles.push_back(std::move(profile));
  }
  return profiles;
}

Result<BuildRecord> read_record(const fb::Record& stored) {
  BuildRecord record;
  if (stored.rewrites()) {
    for (const fb::Rewrite* r : *stored.rewrites()) {
      if (r->action() > static_cast<uint8_t>(ir::Action::kDecline))
        return corrupt("rewrite record of action {}", r->action());
      if (r->reason() >= ir::kNumReasons)
        return corrupt("rewrite record of reason {}", r->reason());
      ir::RewriteRecord read{
          static_cast<ir::Action>(r->action()), text(r->pass()), {}, r->subject(), text(r->text()),
          static_cast<ir::Reason>(r->reason())};
      if (r->layers())
        for (const auto* layer : *r->layers()) read.layers.push_back(layer->str());
      record.rewrites.push_back(std::move(read));
    }
  }
  if (stored.layer_counts())
    for (const fb::LayerCount* c : *stored.layer_counts())
      record.layer_counts.emplace_back(text(c->stage()), c->layers());
  record.builder_version = text(stored.builder_version());
  record.cpu_model = text(stored.cpu_model());
  record.cpu_fingerprint = text(stored.cpu_fingerprint());
  record.model_name = text(stored.model_name());
  record.threads = stored.threads();
  record.peak_gmacs = stored.peak_gmacs();
  record.read_gbytes = stored.read_gbytes();
  record.byte_peak_gmacs = stored.byte_peak_gmacs();
  record.bf16_peak_gmacs = stored.bf16_peak_gmacs();
  return record;
}

}  // namespace

struct Engine::Impl {
  Storage storage;
  std::string file_name;
  FileHeader header = {};
  Plan plan;
  std::vector<Profile> profiles;
  BuildRecord record;
  Verbosity verbosity = Verbosity::kDetailed;

  Status parse() {
    CAMSHAFT_TRY(check_header(storage, header));
    CAMSHAFT_TRY(check_sections(storage, header));
    const auto* bytes = reinterpret_cast<const uint8_t*>(storage.data + header.plan_offset);
    flatbuffers::Verifier verifier(bytes, header.plan_bytes, 64, 10'000'000);
    if (!fb::VerifyEngineBuffer(verifier)) return corrupt("the plan is malformed");
    const fb::Engine& stored = *fb::GetEngine(bytes);
    if (!stored.plan() || !stored.record() ||
        stored.verbosity() > static_cast<uint8_t>(Verbosity::kDetailed))
      return corrupt("the plan is incomplete");
    CAMSHAFT_ASSIGN(plan, read_plan(*stored.plan(), 0));
    CAMSHAFT_ASSIGN(profiles, read_profiles(stored));
    CAMSHAFT_ASSIGN(record, read_record(*stored.record()));
    verbosity = static_cast<Verbosity>(stored.verbosity());
    CAMSHAFT_TRY(verify_plan(plan, header.weights_bytes));
    return verify_profiles(plan, profiles);
  }
};

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

Result<std::shared_ptr<const Engine>> Engine::load(const std::filesystem::path& file) {
  auto impl = std::make_unique<Impl>();
  CAMSHAFT_TRY(map_file(file, impl->storage));
  impl->file_name = file.string();
  if (Status status = impl->parse(); !status.ok()) return status.with_context(file.string());
  return std::shared_ptr<const Engine>(new Engine(std::move(impl)));
}

Result<std::shared_ptr<const Engine>> Engine::load(GrowingBytes file) {
  const auto owner = std::make_shared<const GrowingBytes>(std::move(file));
  return load(*owner, owner);
}

Result<std::shared_ptr<const Engine>> Engine::load(std::span<const std::byte> bytes,
                                                   std::shared_ptr<const void> owner) {
  auto impl = std::make_unique<Impl>();
  // Kernels count on the alignment of packed weights.
  const bool is_aligned = reinterpret_cast<uintptr_t>(bytes.data()) % kWeightAlignment == 0;
  if (owner && is_aligned && !bytes.empty()) {
    impl->storage.data = bytes.data();
    impl->storage.bytes = bytes.size();
    impl->storage.owner = std::move(owner);
  } else {
    CAMSHAFT_TRY(copy_bytes(bytes, impl->storage));
  }
  CAMSHAFT_TRY(impl->parse());
  return std::shared_ptr<const Engine>(new Engine(std::move(impl)));
}

const Plan& Engine::plan() const {
  return impl_->plan;
}
std::span<const std::byte> Engine::weights() const {
  return {impl_->storage.data + impl_->header.weights_offset, impl_->header.weights_bytes};
}
const std::vector<Profile>& Engine::profiles() const {
  return impl_->profiles;
}
const BuildRecord& Engine::record() const {
  return impl_->record;
}
Verbosity Engine::verbosity() const {
  return impl_->verbosity;
}
std::span<const std::byte> Engine::bytes() const {
  return {impl_->storage.data, impl_->storage.bytes};
}

size_t Engine::file_bytes() const {
  return impl_->storage.bytes;
}
std::string_view Engine::file_name() const {
  return impl_->file_name;
}

}  // namespace camshaft::engine
