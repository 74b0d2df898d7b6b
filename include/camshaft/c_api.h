/* SPDX-License-Identifier: Apache-2.0
 * The C API: stable names, no exceptions, plain data. Every function that can fail returns a
 * camshaft_status; on failure camshaft_last_error() of the same thread says what was wrong.
 * Functions marked [builder] are in libcamshaft only, all others also in libcamshaft-rt. Strings
 * are UTF-8 and end in 0; file names are in the system's encoding.
 */
#ifndef CAMSHAFT_C_API_H_
#define CAMSHAFT_C_API_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define CAMSHAFT_C_API __attribute__((visibility("default")))
#else
#define CAMSHAFT_C_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The largest number of dimensions a tensor has. */
#define CAMSHAFT_MAX_RANK 8

typedef enum camshaft_status {
  CAMSHAFT_OK = 0,
  CAMSHAFT_INVALID_ARGUMENT = 1, /* the caller's option, shape or binding is wrong */
  CAMSHAFT_INVALID_MODEL = 2,    /* the ONNX file is malformed or contradicts itself */
  CAMSHAFT_UNSUPPORTED = 3,      /* well formed, but this version cannot do it */
  CAMSHAFT_CORRUPT = 4,          /* an engine file is damaged, foreign or from a newer version */
  CAMSHAFT_IO = 5,               /* a file cannot be read or written */
  CAMSHAFT_CANCELLED = 6,        /* the progress callback asked to stop */
  CAMSHAFT_INTERNAL = 7,         /* a bug in Camshaft */
  CAMSHAFT_RESOURCES = 8         /* memory or threads that the system does not give */
} camshaft_status;

typedef enum camshaft_type {
  CAMSHAFT_UNDEFINED = 0,
  CAMSHAFT_FLOAT = 1,
  CAMSHAFT_HALF = 2,
  CAMSHAFT_BFLOAT16 = 3,
  CAMSHAFT_DOUBLE = 4,
  CAMSHAFT_INT8 = 5,
  CAMSHAFT_UINT8 = 6,
  CAMSHAFT_INT16 = 7,
  CAMSHAFT_UINT16 = 8,
  CAMSHAFT_INT32 = 9,
  CAMSHAFT_UINT32 = 10,
  CAMSHAFT_INT64 = 11,
  CAMSHAFT_UINT64 = 12,
  CAMSHAFT_BOOL = 13, /* one byte, 0 or 1 */
  CAMSHAFT_INT4 = 14, /* two per byte, low nibble first */
  CAMSHAFT_UINT4 = 15
} camshaft_type;

typedef enum camshaft_severity {
  CAMSHAFT_LOG_INTERNAL_ERROR = 0,
  CAMSHAFT_LOG_ERROR = 1,
  CAMSHAFT_LOG_WARNING = 2,
  CAMSHAFT_LOG_INFO = 3,
  CAMSHAFT_LOG_VERBOSE = 4
} camshaft_severity;

typedef struct camshaft_engine
    camshaft_engine; /* immutable; any number of contexts and threads may use one */
typedef struct camshaft_context camshaft_context; /* one thread at a time */

/* An input or output. `name` lives as long as the engine. Extents in ONNX order; -1: known only
 * when shapes are set. */
typedef struct camshaft_tensor_info {
  const char* name;
  camshaft_type type;
  int32_t rank; /* -1: known only at run time */
  int64_t dims[CAMSHAFT_MAX_RANK];
} camshaft_tensor_info;

/* "0.1.0" */
CAMSHAFT_C_API const char* camshaft_version(void);
/* What the last failed call of this thread was about; "" before any failure. Valid until the
 * thread's next failed call. */
CAMSHAFT_C_API const char* camshaft_last_error(void);

/* Called from any thread with records up to `most_verbose`. NULL: no log (the default). `user` is
 * handed through. */
typedef void (*camshaft_log_callback)(camshaft_severity severity, const char* text, void* user);
CAMSHAFT_C_API void camshaft_set_log(camshaft_log_callback callback, camshaft_severity most_verbose,
                                     void* user);

/* --- building [builder]
 * -------------------------------------------------------------------------------------------------
 */

/* The shapes one input takes: kernels are tuned at `opt`; running accepts min <= extent <= max. */
typedef struct camshaft_shape_range {
  const char* input;
  int32_t rank;
  int64_t min[CAMSHAFT_MAX_RANK];
  int64_t opt[CAMSHAFT_MAX_RANK];
  int64_t max[CAMSHAFT_MAX_RANK];
} camshaft_shape_range;

/* The type asked of a layer: float, bfloat16, half or int8. `layer` is the name of a layer or ONNX
 * node and may hold one '*'. */
typedef struct camshaft_layer_type {
  const char* layer;
  camshaft_type type;
} camshaft_layer_type;

/* What layer types do: nothing, warn where they cannot be had, or fail the build. */
typedef enum camshaft_constraints {
  CAMSHAFT_CONSTRAINTS_NONE = 0,
  CAMSHAFT_CONSTRAINTS_PREFER = 1,
  CAMSHAFT_CONSTRAINTS_OBEY = 2
} camshaft_constraints;

/* Set with camshaft_build_options_init(&options, sizeof options), then change what should differ.
 */
typedef struct camshaft_build_options {
  size_t struct_size;                 /* set by init: later versions add fields at the end */
  int32_t threads;                    /* 0: all this process may use */
  int32_t optimization_level;         /* 0 ... 5, 3 by default */
  int32_t avg_timing;                 /* runs averaged per tactic */
  int32_t max_tactics;                /* -1: as the level says */
  const char* timing_cache_file;      /* NULL: none */
  const camshaft_shape_range* shapes; /* for dynamic inputs */
  size_t shape_count;
  /* Phase, steps done, steps in all. Returning 0 cancels the build. May be NULL. */
  int (*progress)(const char* phase, int done, int total, void* user);
  void* user;
  /* Networks with Q/DQ compute in int8 as they say. Nonzero: others, too, with the scales of
   * TensorRT's calibration cache; made-up ones (for timing only) where it is NULL. */
  int32_t int8;
  const char* calibration_cache_file;
  /* Not 0: float layers may compute in bfloat16 or half and store activations so, where faster. */
  int32_t allow_bf16;
  int32_t allow_fp16;
  /* Of every entry of `shapes` the optimization profile it belongs to, 0 ... 63; NULL: all 0. */
  const int32_t* shape_profiles;
  /* What layers must compute in and write, and how that binds. */
  const camshaft_layer_type* layer_precisions;
  size_t layer_precision_count;
  const camshaft_layer_type* layer_output_types;
  size_t layer_output_type_count;
  camshaft_constraints precision_constraints;
  /* Not 0: layers of 16-bit floats round as the network's types say. */
  int32_t strongly_typed;
  /* Not 0: an engine that runs on lesser instruction sets, too. */
  int32_t portable;
  /* 0: weights' zeros do not matter; 1: sparse tactics are timed where weights are 2:4; 2: weights
   * are overwritten so that they are, for timing only. */
  int32_t sparsity;
} camshaft_build_options;

/* Defaults for the first `struct_size` bytes: the caller's sizeof, which may be that of an older
 * version than the library's. */
CAMSHAFT_C_API void camshaft_build_options_init(camshaft_build_options* options,
                                                size_t struct_size);
/* `options` may be NULL: defaults. The engine is the caller's: camshaft_engine_destroy(). */
CAMSHAFT_C_API camshaft_status camshaft_build_file(const char* onnx_file,
                                                   const camshaft_build_options* options,
                                                   camshaft_engine** engine);
CAMSHAFT_C_API camshaft_status camshaft_build_memory(const void* onnx, size_t bytes,
                                                     const camshaft_build_options* options,
                                                     camshaft_engine** engine);

/* --- engines
 * ------------------------------------------------------------------------------------------------------------
 */

CAMSHAFT_C_API camshaft_status camshaft_engine_load(const char* file, camshaft_engine** engine);
/* The bytes are copied. */
CAMSHAFT_C_API camshaft_status camshaft_engine_from_memory(const void* data, size_t bytes,
                                                           camshaft_engine** engine);
/* NULL is allowed. Contexts of the engine may outlive it. */
CAMSHAFT_C_API void camshaft_engine_destroy(camshaft_engine* engine);

CAMSHAFT_C_API camshaft_status camshaft_engine_save(const camshaft_engine* engine,
                                                    const char* file);
/* The engine file's bytes, valid as long as the engine. */
CAMSHAFT_C_API camshaft_status camshaft_engine_bytes(const camshaft_engine* engine,
                                                     const void** data, size_t* bytes);

CAMSHAFT_C_API size_t camshaft_engine_input_count(const camshaft_engine* engine);
CAMSHAFT_C_API size_t camshaft_engine_output_count(const camshaft_engine* engine);
CAMSHAFT_C_API camshaft_status camshaft_engine_input(const camshaft_engine* engine, size_t index,
                                                     camshaft_tensor_info* info);
CAMSHAFT_C_API camshaft_status camshaft_engine_output(const camshaft_engine* engine, size_t index,
                                                      camshaft_tensor_info* info);

CAMSHAFT_C_API size_t camshaft_engine_profile_count(const camshaft_engine* engine);
/* The shapes that an input takes in a profile; the name is the engine's. */
CAMSHAFT_C_API camshaft_status camshaft_engine_profile_shapes(const camshaft_engine* engine,
                                                              size_t profile, const char* input,
                                                              camshaft_shape_range* range);

CAMSHAFT_C_API size_t camshaft_engine_layer_count(const camshaft_engine* engine);
/* Layer information, the schema of TensorRT 8.2-10.x; to be freed with camshaft_free(). */
CAMSHAFT_C_API camshaft_status camshaft_engine_layers_json(const camshaft_engine* engine,
                                                           char** json);
/* Why a layer (0 ... layer_count - 1) is as it is: what the optimizer did to it and declined, and
 * every candidate kernel with its time or the reason it could not run. JSON:
 * {"Name", "Rewrites": [{"Pass", "Layer", "Text", "Declined"}],
 *  "Candidates": [{"Tactic", "Formats", "TimeUs", "Chosen", "Refusal"}]}.
 * To be freed with camshaft_free(). */
CAMSHAFT_C_API camshaft_status camshaft_engine_explain_json(const camshaft_engine* engine,
                                                            size_t layer, char** json);
CAMSHAFT_C_API void camshaft_free(void* text);

/* --- running
 * ------------------------------------------------------------------------------------------------------------
 */

/* threads 0: all this process may use; profile: index of the optimization profile, usually 0. */
CAMSHAFT_C_API camshaft_status camshaft_context_create(const camshaft_engine* engine,
                                                       int32_t threads, int32_t profile,
                                                       camshaft_context** context);
CAMSHAFT_C_API void camshaft_context_destroy(camshaft_context* context);

/* Extents of a dynamic input for the next run. */
CAMSHAFT_C_API camshaft_status camshaft_context_set_shape(camshaft_context* context,
                                                          const char* input, const int64_t* dims,
                                                          int32_t rank);
/* The present extents of an input, and those an output will have: before the first run
 * CAMSHAFT_UNSUPPORTED where only running can tell. `dims` has room for CAMSHAFT_MAX_RANK. */
CAMSHAFT_C_API camshaft_status camshaft_context_input_shape(const camshaft_context* context,
                                                            const char* input, int64_t* dims,
                                                            int32_t* rank);
CAMSHAFT_C_API camshaft_status camshaft_context_output_shape(camshaft_context* context,
                                                             const char* output, int64_t* dims,
                                                             int32_t* rank);
/* The caller's memory, row major; it is read by camshaft_context_run() and must stay alive until
 * then. */
CAMSHAFT_C_API camshaft_status camshaft_context_set_input(camshaft_context* context,
                                                          const char* input, const void* data,
                                                          size_t bytes);
/* Optional: where an output is written, row major; NULL: the context keeps it. */
CAMSHAFT_C_API camshaft_status camshaft_context_set_output(camshaft_context* context,
                                                           const char* output, void* data,
                                                           size_t bytes);
/* One buffer for an input of keys or values and the output that continues it, see
 * Context::set_cache() in context.h. CAMSHAFT_INVALID_ARGUMENT: they cannot share one. */
CAMSHAFT_C_API camshaft_status camshaft_context_set_cache(camshaft_context* context,
                                                          const char* past, const char* present,
                                                          void* data, size_t bytes);
CAMSHAFT_C_API camshaft_status camshaft_context_run(camshaft_context* context);
/* After a run that succeeded: the values, row major, valid until the next run; and their type and
 * extents (either may be NULL). */
CAMSHAFT_C_API camshaft_status camshaft_context_output(camshaft_context* context,
                                                       const char* output, const void** data,
                                                       camshaft_tensor_info* info);

/* Called after every layer of every run with its index, name and time; NULL: off. A layer that runs
   on a part of a large batch at a time is called for several times. */
typedef void (*camshaft_layer_callback)(int32_t layer, const char* name, double microseconds,
                                        void* user);
CAMSHAFT_C_API camshaft_status camshaft_context_set_profiler(camshaft_context* context,
                                                             camshaft_layer_callback callback,
                                                             void* user);

#ifdef __cplusplus
}
#endif

#endif /* CAMSHAFT_C_API_H_ */
