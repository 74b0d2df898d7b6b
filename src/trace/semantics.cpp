// SPDX-License-Identifier: Apache-2.0
// The name lists of the original plugin, and the wider ones used by default.
#include "trace/semantics.h"

#include <algorithm>
#include <string>
#include <unordered_set>

namespace camshaft::trace {
namespace {

bool starts(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

// Parts of kernel names that tell Tensor Core use, up to Ampere.
constexpr std::string_view kTensorCoreParts[] = {"h884",
                                                 "s884",
                                                 "h1688",
                                                 "s1688",
                                                 "hmma",
                                                 "i8816",
                                                 "16816",
                                                 "dgrad_1x1_stride_2x2",
                                                 "first_layer_wgrad_kernel",
                                                 "conv1x1",
                                                 "conv2d_c1_k1",
                                                 "direct_group",
                                                 "xmma_implicit_gemm",
                                                 "xmma_sparse_conv",
                                                 "xmma_warp_specialized_implicit_gemm",
                                                 "xmma_gemm",
                                                 "xmma_sparse_gemm",
                                                 "c1688"};

// aten:: operators that Tensor Cores can serve, as the original lists them.
constexpr std::string_view kEligibleAten[] = {"_convolution",
                                              "conv1d",
                                              "conv2d",
                                              "conv3d",
                                              "conv_tbc",
                                              "conv_transpose1d",
                                              "conv_transpose2d",
                                              "conv_transpose3d",
                                              "convolution",
                                              "cudnn_convolution",
                                              "cudnn_convolution_transpose",
                                              "prelu",
                                              "addmm",
                                              "addmv",
                                              "addr",
                                              "matmul",
                                              "mm",
                                              "mv",
                                              "linear",
                                              "addbmm",
                                              "baddbmm",
                                              "bmm",
                                              "chain_matmul",
                                              "linalg_multi_dot",
                                              "_thnn_fused_lstm_cell",
                                              "_thnn_fused_gru_cell",
                                              "lstm_cell",
                                              "gru_cell",
                                              "rnn_tanh_cell",
                                              "rnn_relu_cell",
                                              "cudnn_convolution_transpose_backward",
                                              "cudnn_convolution_backward_weight",
                                              "addmm_",
                                              "cudnn_convolution_transpose_backward_weight",
                                              "cudnn_convolution_transpose_backward_input",
                                              "cudnn_convolution_backward_input",
                                              "cudnn_convolution_backward"};
constexpr std::string_view kEligibleBackward[] = {"CudnnConvolutionBackward",
                                                  "BmmBackward0",
                                                  "CudnnConvolutionTransposeBackward",
                                                  "MmBackward",
                                                  "AddmvBackward",
                                                  "MvBackward",
                                                  "AddmmBackward",
                                                  "AddbmmBackward"};

constexpr std::string_view kCollectiveVerbs[] = {"broadcast", "reduce", "all_reduce", "all_gather",
                                                 "reduce_scatter"};

std::unordered_set<std::string> eligible_names() {
  std::unordered_set<std::string> names;
  for (const std::string_view name : kEligibleAten) names.insert("aten::" + std::string(name));
  for (const std::string_view name : kEligibleBackward) names.insert(std::string(name));
  return names;
}

}  // namespace

bool is_step_name(std::string_view name) {
  return starts(name, kStepPrefix);
}

bool is_data_loader_name(std::string_view name) {
  constexpr std::string_view kNext = ".__next__";
  if (starts(name, "enumerate(DataPipe)#")) return true;
  return starts(name, "enumerate(DataLoader)#") && name.size() >= kNext.size() &&
         name.substr(name.size() - kNext.size()) == kNext;
}

bool is_optimizer_name(std::string_view name) {
  return starts(name, "Optimizer.step");
}

std::string_view collective_library(std::string_view name, Dialect dialect) {
  const size_t colon = name.find(':');
  if (colon == name.npos) return {};
  const std::string_view library = name.substr(0, colon), verb = name.substr(colon + 1);
  const bool known = library == "gloo" || (library == "nccl" && dialect != Dialect::kMlu) ||
                     (library == "cncl" && dialect != Dialect::kGpu);
  if (!known || std::find(std::begin(kCollectiveVerbs), std::end(kCollectiveVerbs), verb) ==
                    std::end(kCollectiveVerbs))
    return {};
  return library;
}

bool is_collective_name(std::string_view name) {
  for (const std::string_view prefix : {"nccl:", "gloo:", "cncl:", "hccl:", "xccl:", "mpi:", "ucc:",
                                        "c10d::", "_c10d_functional::", "record_param_comms"})
    if (starts(name, prefix)) return true;
  return false;
}

bool is_collective_kernel(std::string_view name) {
  for (const std::string_view prefix : {"nccl", "rccl", "cncl", "hccl", "hcom_", "oneccl_", "ccl_"})
    if (starts(name, prefix)) return true;
  return contains(name, "ncclKernel_") || contains(name, "ncclDevKernel_");
}

bool uses_tensor_cores(std::string_view kernel, const Semantics& semantics) {
  if (semantics.dialect == Dialect::kMlu) return false;
  return std::any_of(std::begin(kTensorCoreParts), std::end(kTensorCoreParts),
                     [&](std::string_view part) { return contains(kernel, part); });
}

namespace {

// Parts of names of kernels on matrix units, beyond the plugin's list: by library.
constexpr std::string_view kMatrixParts[] = {
    "tf32",      "nvjet",     "wgmma",   "tcgen05",     "sm90_",     "sm100_",
    "_sm100",  // cuBLAS, CUTLASS
    "tensorop",  "wmma",      "fmhaSm",  "flash_fwd",   "flash_bwd", "fmha_cutlass",
    "_MI16x16x", "_MI32x32x", "mfma",    "xdlops",      "_xdl",  // Tensile, CK, MIOpen
    "gtcx",      "FmhaFwd",   "FmhaBwd", "triton_tem_",          // Inductor's templates: tl.dot
};
// Of kernels that have no products of matrices to compute.
constexpr std::string_view kPlainParts[] = {
    "elementwise",    "reduce",       "Reduce",     "softmax",    "SoftMax",    "norm",
    "Norm",           "transpose",    "Transpose",  "copy",       "Copy",       "cast",
    "Cast",           "fill",         "Fill",       "index",      "Index",      "gather",
    "scatter",        "embedding",    "dropout",    "triton_poi", "triton_red", "triton_per",
    "at_cuda_detail", "cub::",        "thrust::",   "rocprim",    "Memcpy",     "Memset",
    "SubTensorOp",    "OpTensor",     "pooling",    "Pooling",    "adam",       "Adam",
    "multi_tensor",   "nchwToNhwc",   "nhwcToNchw", "rotary",     "all_reduce", "quantize",
    "routing",        "splitKreduce", "sgemm",      "scudnn",     "gcgemm",     "wgrad_alg0_engine",
    "dgrad_engine",   "simt",         "gemv",       "winograd",   "bn_fw",      "bn_bw",
    "pool",
};

}  // namespace

MatrixUse matrix_use(std::string_view kernel, const Semantics& semantics) {
  const auto has = [&](std::string_view part) { return contains(kernel, part); };
  if (uses_tensor_cores(kernel, semantics)) return MatrixUse::kYes;
  if (semantics.original || semantics.dialect == Dialect::kMlu) return MatrixUse::kNo;
  // Names of templates hold their arguments: what a kernel is stands in front of them.
  if (contains(kernel.substr(0, kernel.find('(')), "at::native::")) return MatrixUse::kNo;
  if (std::any_of(std::begin(kMatrixParts), std::end(kMatrixParts), has)) return MatrixUse::kYes;
  if (is_collective_kernel(kernel) ||
      std::any_of(std::begin(kPlainParts), std::end(kPlainParts), has))
    return MatrixUse::kNo;
  return MatrixUse::kUnknown;
}

const char* matrix_use_word(MatrixUse use) {
  return use == MatrixUse::kYes ? "yes" : use == MatrixUse::kNo ? "no" : "unknown";
}

bool is_tensor_core_eligible(std::string_view op, const Semantics& semantics) {
  static const std::unordered_set<std::string> names = eligible_names();
  return semantics.dialect != Dialect::kMlu && names.count(std::string(op)) > 0;
}

}  // namespace camshaft::trace
