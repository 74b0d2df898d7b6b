// SPDX-License-Identifier: Apache-2.0
// Edits of an ONNX file: Q/DQ pairs put in or taken out, everything else left as it is.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "quantize/onnx_opset13.h"
#include "quantize/scales.h"

namespace camshaft::quantize {

class OnnxFile {
 public:
  static Result<OnnxFile> read(const std::filesystem::path& file);
  static Result<OnnxFile> parse(const std::string& bytes);  // without external data
  OnnxFile(OnnxFile&&) noexcept;
  OnnxFile& operator=(OnnxFile&&) noexcept;
  ~OnnxFile();

  int64_t opset() const;
  // See onnx_opset13.h; does nothing from opset 13 on.
  Status raise_to_opset_13(const SoftmaxAxis& softmax_axis);

  // Before input `input` of the node that makes `output`: quantize, dequantize. Equal ones are
  // shared.
  Status quantize_activation(const std::string& output, size_t input, const ActivationGrid& grid);
  // That input becomes an int8 initializer and its DequantizeLinear.
  Status quantize_weights(const std::string& output, size_t input, const std::string& name,
                          const QuantizedWeights& weights);
  // That input, which the node may not have yet, becomes a float initializer.
  Status set_vector(const std::string& output, size_t input, const std::string& name,
                    const std::vector<float>& values);
  // That input, made by DequantizeLinear, is taken from before its QuantizeLinear; where there is
  // none, from a float initializer with these values.
  Status remove_quantization(const std::string& output, size_t input,
                             const std::vector<float>& values);

  // Other values for an initializer or the output of a Constant node: as many bytes as it has.
  Status set_values(const std::string& tensor, std::span<const std::byte> bytes);

  // The edited file: new nodes in their places, what nothing reads any more left out. To be called
  // once, last.
  Result<std::string> finish();

 private:
  struct Impl;
  explicit OnnxFile(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace camshaft::quantize
