// SPDX-License-Identifier: Apache-2.0
// Shapes of Generic operators: random numbers, signals, training steps.
#include "ir/infer_generic.h"
#include "ir/short_time_spectra.h"

namespace camshaft::ir {
namespace {

Status random(GenericRule& g) {
  CAMSHAFT_ASSIGN(const DataType type, g.type("dtype", DataType::kFloat));
  const Ints extents = g.list("shape");
  if (extents.size() > kMaxRank)
    return make_error(ErrorCode::kUnsupported, "{} dimensions (at most {})", extents.size(),
                      kMaxRank);
  Shape shape;
  for (int64_t extent : extents) {
    if (extent < 0 || extent > kMaxExtent) return invalid("extent {}", extent);
    shape.push_back(extent);
  }
  return g.f.give(type, shape);
}

Status random_like(GenericRule& g) {  // Bernoulli, RandomNormalLike, RandomUniformLike
  CAMSHAFT_TRY(g.f.require(1));
  CAMSHAFT_ASSIGN(const DataType type, g.type("dtype", g.f.in(0).type));
  return g.f.ranked(0) ? g.f.give(type, g.f.shape(0)) : g.f.unranked(type);
}

Status multinomial(GenericRule& g) {
  CAMSHAFT_TRY(g.f.require(1));
  CAMSHAFT_ASSIGN(const DataType type, g.type("dtype", DataType::kInt32));
  const int64_t samples = g.integer("sample_size", 1);
  if (samples < 1 || samples > kMaxExtent) return invalid("sample_size {}", samples);
  return g.f.give(type, Shape{g.extent(0, 0), Dim(samples)});
}

// --- signals

Status window(GenericRule& g) {
  CAMSHAFT_TRY(g.f.require(1));
  CAMSHAFT_ASSIGN(const DataType type, g.type("output_datatype", DataType::kFloat));
  const auto size = g.value(0);
  return g.f.give(type, Shape{size && size->size() == 1 ? (*size)[0] : g.f.unknown()});
}

Status mel_weights(GenericRule& g) {
  CAMSHAFT_TRY(g.f.require(5));
  CAMSHAFT_ASSIGN(const DataType type, g.type("output_datatype", DataType::kFloat));
  const auto mels = g.value(0), length = g.value(1);
  const bool known = mels && length && mels->size() == 1 && length->size() == 1;
  const Dim rows =
      known ? g.f.symbols.add(g.f.symbols.floor_div((*length)[0], 2), 1) : g.f.unknown();
  return g.f.give(type, Shape{rows, known ? (*mels)[0] : g.f.unknown()});
}

// x: […, n, 1 or 2]; the axis became an input in opset 20.
Status dft(GenericRule& g) {
  Inference& f = g.f;
  CAMSHAFT_TRY(f.require(1));
  if (!f.ranked(0) || f.rank(0) < 2) return invalid("the input has no signal dimension");
  const auto length = g.value(1);
  int64_t given = g.opset() < 20 ? g.integer("axis", 1) : -2;
  if (g.opset() >= 20 && f.has(2)) {
    const std::optional<int64_t> number = f.number(2);
    if (!number) return f.give(f.in(0).type, f.unknown_shape(f.rank(0)));
    given = *number;
  }
  const int64_t axis = wrap_axis(given, f.rank(0));
  if (axis < 0) return invalid("axis {} of {}", given, to_string(f.shape(0), f.symbols));
  const bool one_sided = g.integer("onesided", 0) != 0, inverse = g.integer("inverse", 0) != 0;
  Shape shape = f.shape(0);
  if (f.has(1)) shape[axis] = length && length->size() == 1 ? (*length)[0] : f.unknown();
  if (one_sided && inverse && !f.has(1))
    shape[axis] = f.symbols.mul(f.symbols.sub(shape[axis], 1), 2);
  if (one_sided && !inverse) shape[axis] = f.symbols.add(f.symbols.floor_div(shape[axis], 2), 1);
  shape[shape.size() - 1] = one_sided && inverse ? Dim(1) : Dim(2);
  return f.give(f.in(0).type, shape);
}

// How many frames of `length`, each `step` behind the one before, lie in so many samples.
Result<Dim> frames_in(Inference& f, Dim samples, Dim length, Dim step) {
  const Dim frames = f.symbols.add(f.symbols.floor_div(f.symbols.sub(samples, length), step), 1);
  if (f.is_number(frames) && f.symbols.number(frames) < 1)
    return invalid("a frame of {} does not fit into {} samples", f.symbols.to_string(length),
                   f.symbols.to_string(samples));
  return frames;
}

// Inputs: signal [batch, n, 1 or 2], frame_step, window, frame_length.
Status stft(GenericRule& g) {
  Inference& f = g.f;
  CAMSHAFT_TRY(f.require(2));
  const auto step = g.value(1), length = g.value(3);
  Dim frame = f.unknown();
  if (length && length->size() == 1)
    frame = (*length)[0];
  else if (!f.has(3) && f.ranked(2) && f.rank(2) == 1)
    frame = f.shape(2)[0];
  Dim frames = f.unknown();
  if (step && step->size() == 1 && f.symbols.bounds((*step)[0]).low > 0 && f.ranked(0) &&
      f.rank(0) >= 2) {
    CAMSHAFT_ASSIGN(frames, frames_in(f, f.shape(0)[1], frame, (*step)[0]));
  }
  const bool one_sided = g.integer("onesided", 1) != 0;
  const Dim bins = one_sided ? f.symbols.add(f.symbols.floor_div(frame, 2), 1) : frame;
  return f.give(f.in(0).type, Shape{g.extent(0, 0), frames, bins, Dim(2)});
}

// short_time_spectra.h
Status short_time_spectra(GenericRule& g) {
  Inference& f = g.f;
  CAMSHAFT_TRY(f.require(2));
  const int64_t hop = g.integer("hop", 1);
  if (!f.ranked(0) || !f.ranked(1)) return f.unranked(f.in(0).type);
  if (f.rank(0) != 2 || f.rank(1) != 1 || hop < 1 || hop > kMaxExtent)
    return invalid("no rows of samples, no window or a hop of {}", hop);
  const Dim length = f.shape(1)[0], bins = f.symbols.add(f.symbols.floor_div(length, 2), 1);
  CAMSHAFT_ASSIGN(const Dim frames, frames_in(f, f.shape(0)[1], length, f.symbols.constant(hop)));
  return f.give(f.in(0).type, Shape{Dim(2), f.shape(0)[0], frames, bins});
}

// --- training steps: inputs R, T, then n of each of X, G and the states; outputs the new X and
// states.

Status training_step(GenericRule& g, size_t states) {
  Inference& f = g.f;
  if (f.inputs.size() < 2 || (f.inputs.size() - 2) % (states + 2) != 0)
    return invalid("{} inputs", f.inputs.size());
  const size_t count = (f.inputs.size() - 2) / (states + 2);
  CAMSHAFT_TRY(f.require(f.inputs.size()));
  if (f.outputs.size() < count * (states + 1)) f.outputs.resize(count * (states + 1));
  for (size_t k = 0; k < count; ++k) {
    CAMSHAFT_TRY(g.same(2 + k, k));
    for (size_t s = 0; s < states; ++s)
      CAMSHAFT_TRY(g.same(2 + (s + 2) * count + k, (s + 1) * count + k));
  }
  return ok_status();
}

Status one_state(GenericRule& g) {
  return training_step(g, 1);
}
Status two_states(GenericRule& g) {
  return training_step(g, 2);
}

}  // namespace

std::span<const GenericRow> generic_random_rules() {
  static constexpr GenericRow kRows[] = {
      {"RandomUniform", random},
      {"RandomNormal", random},
      {"RandomUniformLike", random_like},
      {"RandomNormalLike", random_like},
      {"Bernoulli", random_like},
      {"Multinomial", multinomial},
      {"HannWindow", window},
      {"HammingWindow", window},
      {"BlackmanWindow", window},
      {"MelWeightMatrix", mel_weights},
      {"DFT", dft},
      {"STFT", stft},
      {kShortTimeSpectra, short_time_spectra},
      {"Adagrad", one_state},
      {"Momentum", one_state},
      {"Adam", two_states},
  };
  return kRows;
}

}  // namespace camshaft::ir
