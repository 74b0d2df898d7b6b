// SPDX-License-Identifier: Apache-2.0
#include "camshaft/inspector.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <tuple>

#include "api/impl.h"
#include "inspect/explain.h"
#include "inspect/layer_json.h"
#include "inspect/layers.h"
#include "inspect/profile.h"
#include "inspect/region_layers.h"

namespace camshaft {

struct Inspector::Impl {
  Engine engine;
  std::vector<LayerInfo> layers;
  std::vector<RegionInfo> regions;
  std::vector<RewriteInfo> rewrites;

  const engine::Engine& internal() const { return *engine.impl().engine; }
  const LayerInfo* find(int index) const {
    return index >= 0 && static_cast<size_t>(index) < layers.size()
               ? &layers[static_cast<size_t>(index)]
               : nullptr;
  }
};

namespace {

std::unique_ptr<Inspector::Impl> inspect_engine(const Engine& engine,
                                                const runtime::Context* context) {
  const engine::Engine& internal = *engine.impl().engine;
  auto impl = std::make_unique<Inspector::Impl>(
      Inspector::Impl{engine, inspect::collect_layers(internal, context), {}, {}});
  impl->regions = inspect::collect_regions(internal, impl->layers, context);
  for (const ir::RewriteRecord& record : internal.record().rewrites)
    impl->rewrites.push_back({record.action == ir::Action::kDecline, ir::action_name(record.action),
                              record.pass, record.layers.empty() ? "" : record.layers[0],
                              record.layers, record.text, ir::reason_name(record.reason)});
  return impl;
}

}  // namespace

Inspector::Inspector(const Engine& engine) : impl_(inspect_engine(engine, nullptr)) {}
Inspector::Inspector(const Engine& engine, const Context& context)
    : impl_(inspect_engine(engine, const_cast<Context&>(context).impl().context.get())) {}
Inspector::Inspector(Inspector&&) noexcept = default;
Inspector::~Inspector() = default;

const std::vector<LayerInfo>& Inspector::layers() const {
  return impl_->layers;
}

const std::vector<RegionInfo>& Inspector::regions() const {
  return impl_->regions;
}

const std::vector<RewriteInfo>& Inspector::rewrites() const {
  return impl_->rewrites;
}

std::vector<RewriteInfo> Inspector::rewrites_of(int index) const {
  std::vector<RewriteInfo> records;
  if (impl_->find(index) == nullptr) return records;
  const auto& told = impl_->internal().record().rewrites;
  const ir::Layer& step = impl_->internal().plan().steps[static_cast<size_t>(index)].layer;
  for (size_t k = 0; k < told.size(); ++k)
    if (step.came_from(told[k].subject)) records.push_back(impl_->rewrites[k]);
  return records;
}

const std::vector<std::pair<std::string, int>>& Inspector::layer_counts() const {
  return impl_->internal().record().layer_counts;
}

double Inspector::peak_gmacs() const {
  return inspect::thread_peak_gmacs(impl_->internal());
}

std::string Inspector::to_json(Verbosity verbosity, Wording wording) const {
  return inspect::engine_json(impl_->internal(), impl_->layers, impl_->regions, verbosity, wording);
}

std::string Inspector::to_text(Verbosity verbosity, Wording wording) const {
  return inspect::engine_text(impl_->internal(), impl_->layers, impl_->regions, verbosity, wording);
}

std::string Inspector::layer_json(int index) const {
  const LayerInfo* layer = impl_->find(index);
  return layer == nullptr ? "" : inspect::layer_json(impl_->internal(), *layer);
}

std::string Inspector::layer_text(int index) const {
  const LayerInfo* layer = impl_->find(index);
  return layer == nullptr ? "" : inspect::layer_text(impl_->internal(), *layer);
}

std::string Inspector::explain_json(int index) const {
  const LayerInfo* layer = impl_->find(index);
  if (layer == nullptr) return "";
  const RegionInfo* region =
      layer->region < 0 ? nullptr : &impl_->regions[static_cast<size_t>(layer->region)];
  return inspect::explain_json(*layer, region, rewrites_of(index));
}

std::string Inspector::layer_line(int index, Wording wording) const {
  const LayerInfo* layer = impl_->find(index);
  return layer == nullptr ? "" : inspect::layer_line(*layer, wording);
}

std::string Inspector::region_line(int region, Wording wording) const {
  if (region < 0 || static_cast<size_t>(region) >= impl_->regions.size()) return "";
  return inspect::region_line(impl_->regions[static_cast<size_t>(region)], wording);
}

struct LayerProfile::Impl {
  inspect::ProfileData data;
};

LayerProfile::LayerProfile(const Inspector& inspector)
    : impl_(std::make_unique<Impl>(Impl{inspect::ProfileData(inspector.layers())})) {}
LayerProfile::LayerProfile(LayerProfile&&) noexcept = default;
LayerProfile::~LayerProfile() = default;

void LayerProfile::add(const LayerTime& time) {
  impl_->data.add(time);
}

void LayerProfile::end_run() {
  impl_->data.end_run();
}

void LayerProfile::clear() {
  impl_->data.clear();
}

int LayerProfile::runs() const {
  return impl_->data.runs();
}

double LayerProfile::total_ms() const {
  return impl_->data.total_ms();
}

std::vector<LayerProfile::Row> LayerProfile::rows(double peak_gmacs) const {
  return impl_->data.rows(peak_gmacs);
}

std::vector<LayerProfile::Row> LayerProfile::inner_rows(int layer) const {
  return impl_->data.inner_rows(layer);
}

std::string LayerProfile::to_json() const {
  return impl_->data.to_json();
}

std::string LayerProfile::to_text() const {
  return impl_->data.to_text();
}

}  // namespace camshaft
