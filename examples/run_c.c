/* SPDX-License-Identifier: Apache-2.0 */
/* The C API in one screen: build an engine from an ONNX file, save and load it, run it, print the
 * first values of its outputs. usage: run_c MODEL.onnx ENGINE */
#include <stdio.h>
#include <stdlib.h>

#include "camshaft/c_api.h"

#define CHECK(call)                                          \
  do {                                                       \
    if ((call) != CAMSHAFT_OK) {                             \
      fprintf(stderr, "error: %s\n", camshaft_last_error()); \
      return 1;                                              \
    }                                                        \
  } while (0)

static size_t elements(const camshaft_tensor_info* info) {
  size_t count = 1;
  for (int32_t k = 0; k < info->rank; ++k) count *= info->dims[k] < 0 ? 1 : (size_t)info->dims[k];
  return count;
}

int main(int argc, char** argv) {
  camshaft_engine* engine = NULL;
  camshaft_context* context = NULL;
  void* inputs[16] = {0};
  if (argc != 3) {
    fprintf(stderr, "usage: %s MODEL.onnx ENGINE\n", argv[0]);
    return 1;
  }
  CHECK(camshaft_build_file(argv[1], NULL, &engine));
  CHECK(camshaft_engine_save(engine, argv[2]));
  camshaft_engine_destroy(engine);

  CHECK(camshaft_engine_load(argv[2], &engine));
  CHECK(camshaft_context_create(engine, 0, 0, &context));
  for (size_t k = 0; k < camshaft_engine_input_count(engine) && k < 16; ++k) {
    camshaft_tensor_info info;
    CHECK(camshaft_engine_input(engine, k, &info));
    inputs[k] = calloc(elements(&info), 8);
    CHECK(camshaft_context_set_input(context, info.name, inputs[k],
                                     elements(&info) * (info.type == CAMSHAFT_INT64 ? 8 : 4)));
  }
  CHECK(camshaft_context_run(context));
  for (size_t k = 0; k < camshaft_engine_output_count(engine); ++k) {
    camshaft_tensor_info info;
    const void* data = NULL;
    CHECK(camshaft_engine_output(engine, k, &info));
    CHECK(camshaft_context_output(context, info.name, &data, &info));
    printf("%s", info.name);
    for (int32_t d = 0; d < info.rank; ++d)
      printf("%c%lld", d == 0 ? ' ' : 'x', (long long)info.dims[d]);
    if (info.type == CAMSHAFT_FLOAT) {
      for (size_t e = 0; e < elements(&info) && e < 4; ++e) printf(" %g", ((const float*)data)[e]);
    }
    printf("\n");
  }
  camshaft_context_destroy(context);
  camshaft_engine_destroy(engine);
  for (int k = 0; k < 16; ++k) free(inputs[k]);
  return 0;
}
