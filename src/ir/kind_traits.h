// SPDX-License-Identifier: Apache-2.0
// What a layer kind is: one row per kind in kind_traits.cpp, which everything else asks. A kind
// that leaves a column unsaid does not compile.
#pragma once

#include <cstddef>

#include "ir/graph.h"

namespace camshaft::ir {

struct Inference;

#define CAMSHAFT_KIND(kind, name, attrs) +1
inline constexpr size_t kLayerKinds = 0 CAMSHAFT_LAYER_KINDS(CAMSHAFT_KIND);
#undef CAMSHAFT_KIND

inline constexpr int kAnyNumber = 1 << 20;

// The first `required_inputs` must be there; those behind may be absent.
struct Arity {
  int required_inputs, most_inputs;
  int least_outputs, most_outputs;
  int bodies = 0;
};

// How elements of the result hang on those of the inputs.
enum class Elements : unsigned char {
  kPointwise,  // on one of each input (broadcast), by operators that programs have
  kConverted,  // the same, but no operator of a program: another type
  kMixed,      // on several
};

// Whether the result is made of elements of input 0, unchanged: then Q(f(x)) = f(Q(x)).
enum class Movement : unsigned char {
  kComputes,   // no
  kMovesAll,   // moves or repeats them
  kMovesSome,  // and may leave some out
  kSelects,    // as kMovesSome, for some attributes only
  kPads,       // as kMovesAll, among a constant
};

// With the batch in front, image k of the result hangs on image k of the inputs alone.
enum class Images : unsigned char {
  kAlone,
  kByAxis,    // unless AxisAttrs::axis is the batch
  kTogether,  // not, or nobody asks
};

// Where the program of an epilogue works: nowhere, on the result, on scores before the softmax.
enum class EpilogueOn : unsigned char { kNothing, kResult, kScores };
struct EpilogueSlot {
  EpilogueOn on;
  size_t first_operand;  // the input that is the program's value 1
};

// Inputs that have the format (channel last or not) of the layer's data: input 0 always.
enum class DataInputs : unsigned char { kFirst, kAndEpilogue, kEvery };

// Float activations may be stored in 16 bits: never, all of them, or inputs or outputs alone too.
enum class Storage : unsigned char { kFloat, kAll16, kAny16 };

// A layer of 16-bit floats means the same in float: all of it, or what it reads; of operators
// without a kind, those that are named where it is asked.
enum class Widening : unsigned char { kNever, kWhole, kInputs, kNamed };

// Extents of the result follow from those of the inputs, from integers among the inputs as well (a
// target shape, where a slice ends), or the data decide.
enum class ExtentsAre : unsigned char { kInferred, kOfNumbers, kFound };

// What it does to its data, as words say it.
enum class Deed : unsigned char {
  kAttends,
  kMultiplies,  // matrices
  kMixes,       // products of chosen experts
  kNormalizes,
  kLooksUp,  // rows of a table
  kMaps,     // each element alone
  kReduces,
  kRearranges,
  kSlides,  // over images
  kSearches,
  kRepeats,  // step by step
  kBranches,
  kUnnamed,  // an operator without a kind of its own
};

struct KindTraits {
  LayerKind kind;
  Arity arity;
  Status (*infer)(Inference&);    // infer_*.cpp
  Status (*check)(const Layer&);  // verify_kinds.cpp: invariants beyond the arity
  Elements elements;
  Movement movement;
  Images images;
  EpilogueSlot epilogue;
  DataInputs data_inputs;
  Storage storage;
  Widening widening;
  ExtentsAre extents;
  Deed deed;
};

const KindTraits& traits_of(LayerKind kind);

// The program of the layer's slot (which may be empty); null: its kind has none there.
Program* epilogue_of(Layer& layer, EpilogueOn on = EpilogueOn::kResult);
const Program* epilogue_of(const Layer& layer, EpilogueOn on = EpilogueOn::kResult);

// Of a Pooling: where the maxima lay is wanted, too.
bool gives_indices(const Layer& pooling);

// Each element of the result is an element of input 0 (or a pad value): it commutes with whatever
// works on each element alone, such as quantization.
bool moves_elements(const Layer& layer);
// The same whatever the attributes, and no pad value among them.
bool always_moves(LayerKind kind);
// The same by kind: elements of input 0 may be missing from the result.
bool may_leave_out(LayerKind kind);

}  // namespace camshaft::ir
