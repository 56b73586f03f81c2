/* An operation of one's own for Carya's pipelines, in C or C++: the whole interface of `carya.op`.
 *
 * A library defines one function, `carya_op_entry`, which returns a description that lives as long as the library. Its
 * functions are called by many threads at once, and keep nothing but what `plan` gave them. What they compute is part of
 * the stream's promise: the output is a function of input, parameters and random numbers alone. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. A library of another version is refused. */
#define CARYA_OP_INTERFACE 1

#define CARYA_OP_DIMENSIONS_MAX 8

enum {
  CARYA_BOOL = 1,
  CARYA_UINT8,
  CARYA_INT8,
  CARYA_UINT16,
  CARYA_INT16,
  CARYA_UINT32,
  CARYA_INT32,
  CARYA_UINT64,
  CARYA_INT64,
  CARYA_FLOAT16,
  CARYA_FLOAT32,
  CARYA_FLOAT64,
  CARYA_BFLOAT16
};

/* One array, row-major and without gaps. */
typedef struct {
  int32_t dtype;      /* CARYA_UINT8, ... */
  int32_t dimensions; /* 0 to CARYA_OP_DIMENSIONS_MAX */
  /* -1 where it is another one in each record: the height and width of a decoded picture (height, width, channels)
   * before a crop or resize. `run` gets the sizes that they have. */
  int64_t shape[CARYA_OP_DIMENSIONS_MAX];
} carya_tensor;

/* Random numbers of one sample: the same for the same seed, epoch and record, whoever computes it. */
typedef struct carya_random carya_random;
struct carya_random {
  uint32_t (*next)(carya_random* self); /* 32 random bits */
};

/* Room for the reason of a failure, as text of at most CARYA_OP_REASON bytes with its 0. */
#define CARYA_OP_REASON 256

typedef struct {
  uint32_t version;   /* CARYA_OP_INTERFACE */
  const char* name;   /* as it stands in plans and errors: lower case, digits, '_' */
  uint32_t revision;  /* rises when the bits of the result change; part of the pipeline's fingerprint */
  int32_t random;     /* 1: `run` draws random numbers */
  const char* digest; /* CARYA_OP_DIGEST: what it was compiled from; "" where it was compiled by hand */

  /* Check the parameters (the text of a JSON object) and say what is made of an input like `in`. Returns 0, or another
   * number with the reason. If `state` is not NULL, what `run` needs may be kept in it; `end` gives it back. Sizes of -1
   * may only stay where they are, and only of uint8 pictures. It is also called with the sizes of one record. */
  int (*plan)(const char* parameters, const carya_tensor* in, carya_tensor* out, void** state, char* reason);
  /* Compute one sample: all of `out_data`. `random` is NULL unless the description says `random`. Returns 0, or another
   * number with the reason, which makes the record a broken one. */
  int (*run)(const void* state, const carya_tensor* in, const void* in_data, const carya_tensor* out,
             void* out_data, carya_random* random, char* reason);
  /* May be NULL. */
  void (*end)(void* state);
} carya_op;

/* What `carya.op` puts here when it compiles. */
#ifndef CARYA_OP_DIGEST
#define CARYA_OP_DIGEST ""
#endif

__attribute__((visibility("default"))) const carya_op* carya_op_entry(void);

#ifdef __cplusplus
}
#endif
