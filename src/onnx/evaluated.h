// SPDX-License-Identifier: Apache-2.0
// Small tensors that layers of constants make, evaluated while importing: a shape may go through
// floats (Pow, Div, Cast …) before it becomes one. The layers stay; passes fold them.
#pragma once

#include <unordered_map>

#include "kernels/interpreter.h"

namespace camshaft::onnx_import {

class Evaluated {
 public:
  // Evaluates `layer` if all it reads is known; outputs of integers get their shape_value.
  void add(ir::Layer& layer);
  // `copy` is the same tensor in a body.
  void share(const ir::Tensor* tensor, const ir::Tensor* copy);
  // Null: not known. Constants are not in here.
  const kernels::Value* find(const ir::Tensor* tensor) const;

 private:
  std::unordered_map<const ir::Tensor*, kernels::Value> values_;
};

}  // namespace camshaft::onnx_import
