// SPDX-License-Identifier: Apache-2.0
#include "cli/float_comparison.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/pieces.h"

namespace camshaft::cli {
namespace {

constexpr size_t kNameWidth = 88;
// Times of one layer in two builds differ by less.
constexpr double kNoise = 1.08;

bool is_code(const LayerTensor& tensor) {
  return tensor.type == DataType::kInt8 || tensor.type == DataType::kUInt8;
}

// A Q or DQ that no other layer took in.
bool is_conversion(const LayerInfo& layer) {
  return layer.type == "Reformat" && !layer.inputs.empty() && !layer.outputs.empty() &&
         (is_code(layer.inputs[0]) || is_code(layer.outputs[0])) && layer.macs == 0 &&
         layer.inputs[0].type != layer.outputs[0].type;
}

double float_form_us(const LayerInfo& layer) {
  for (const LayerCandidate& candidate : layer.candidates)
    if (candidate.tactic.starts_with("in float")) return candidate.time_us;
  return 0;
}

struct Sum {
  int layers = 0;
  double us = 0;
  void add(const LayerInfo& layer) {
    ++layers;
    us += layer.build_time_us;
  }
};

Sum running(const Inspector& inspector) {
  Sum sum;
  for (const LayerInfo& layer : inspector.layers())
    if (!layer.is_no_op) sum.add(layer);
  return sum;
}

double average(const AlikeGroups& alike, double PieceGroup::*us) {
  double sum = 0;
  for (const PieceGroup* group : alike.groups) sum += group->*us;
  return sum / static_cast<double>(alike.groups.size());
}

void print_side(const char* side, const std::vector<const LayerInfo*>& layers, double us) {
  fmt::print("    {}  {} layer{}, {:.1f} us\n", side, layers.size(), layers.size() == 1 ? "" : "s",
             us);
  for (const LayerInfo* layer : layers)
    fmt::print("           {:>8.1f} us  {}: {}\n", layer->build_time_us, layer->type,
               shorten(layer->name, kNameWidth));
}

// Of alike ones the first is shown, with the average of their times.
void print_groups(const std::string& title, const std::vector<const PieceGroup*>& groups) {
  fmt::print("\n{}\n", styled(title, Style::kBold));
  if (groups.empty()) fmt::print("  none\n");
  for (const AlikeGroups& same : alike(groups)) {
    if (same.groups.size() == 1)
      fmt::print("  once\n");
    else
      fmt::print(
          "  {} times alike, on the average in float {:.1f} us, here {:.1f} us; the first:\n",
          same.groups.size(), average(same, &PieceGroup::there_us),
          average(same, &PieceGroup::here_us));
    print_side("in float", same.groups[0]->there, same.groups[0]->there_us);
    print_side("here    ", same.groups[0]->here, same.groups[0]->here_us);
  }
}

}  // namespace

void print_conversions(const Inspector& inspector) {
  Sum conversions, products;
  double in_float = 0;
  for (const LayerInfo& layer : inspector.layers()) {
    if (is_conversion(layer)) conversions.add(layer);
    if (const double us = float_form_us(layer); us > 0) {
      products.add(layer);
      in_float += us;
    }
  }
  if (conversions.layers == 0 && products.layers == 0) return;
  const Sum all = running(inspector);
  fmt::print("\n{}\n", styled("8 bits", Style::kBold));
  fmt::print("  {} Q and DQ run as layers of their own: {:.1f} us, {:.1f} % of all\n",
             conversions.layers, conversions.us, all.us > 0 ? conversions.us / all.us * 100 : 0);
  if (products.layers > 0)
    fmt::print("  {} products of codes take {:.1f} us; in float, with the conversions, {:.1f} us\n",
               products.layers, products.us, in_float);
  fmt::print(
      "  `camshaft explain ENGINE --float ENGINE|MODEL.onnx` compares with the float form\n");
}

Status compare_with_float(const Inspector& inspector, const Options& options, Messages& messages) {
  CAMSHAFT_ASSIGN(Network network, Network::open(options.text("float")));
  network.drop_quantization();
  CAMSHAFT_ASSIGN(const Engine engine, network.engine(options, {}, messages));
  CAMSHAFT_ASSIGN(Context context, make_context(engine, options));
  for (const TensorInfo& output : engine.outputs()) (void)context.output_shape(output.name);
  const Inspector other(engine, context);
  const std::vector<PieceGroup> groups = match_pieces(inspector.layers(), other.layers());
  if (std::none_of(groups.begin(), groups.end(), [](const PieceGroup& group) {
        return !group.here.empty() && !group.there.empty();
      }))
    return make_error(ErrorCode::kInvalidArgument,
                      "{}: no layer has a node in common with this engine: another network?",
                      options.text("float"));

  std::vector<const PieceGroup*> more, slower;
  int extra = 0;
  double extra_us = 0;
  for (const PieceGroup& group : groups) {
    if (!group.there.empty() && group.here_us > group.there_us * kNoise) slower.push_back(&group);
    if (!group.has_more_pieces()) continue;
    more.push_back(&group);
    extra += static_cast<int>(group.here.size() - group.there.size());
    extra_us += group.extra_us();
  }
  const Sum here = running(inspector), there = running(other);
  print_groups("in more pieces than in float", more);
  print_groups(fmt::format("slower than in float by more than {:.0f} %", (kNoise - 1) * 100),
               slower);
  fmt::print("\n{}\n", styled("in all", Style::kBold));
  fmt::print(
      "  in float  {} layers, {:.1f} us\n  here      {} layers, {:.1f} us: {:.2f} x as fast\n",
      there.layers, there.us, here.layers, here.us, here.us > 0 ? there.us / here.us : 0);
  fmt::print("  {} pieces more, the smallest of their groups: {:.1f} us, {:.1f} %\n", extra,
             extra_us, here.us > 0 ? extra_us / here.us * 100 : 0);
  return ok_status();
}

}  // namespace camshaft::cli
