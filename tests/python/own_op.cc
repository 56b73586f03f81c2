// Operations for test_own_ops.py: WHAT says which.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "carya_op.h"

#ifndef WHAT
#define WHAT "divided"
#endif
#ifndef VERSION
#define VERSION CARYA_OP_INTERFACE
#endif

namespace {

long elements(const carya_tensor* tensor) {
  long count = 1;
  for (int i = 0; i < tensor->dimensions; ++i) count *= tensor->shape[i];
  return count;
}

bool is(const char* what) {
  return std::strcmp(WHAT, what) == 0;
}

// "divided": each value by `by`, plus a random number of 0 to 7. "planes": the sum over channels, as float32. "halved": every
// second row and column. "refusing": a broken record where the first value is odd. "wrong": an array that cannot be.
int plan(const char* parameters, const carya_tensor* in, carya_tensor* out, void** state, char* reason) {
  const char* const by = std::strstr(parameters, "\"by\":");
  const int number = by ? std::atoi(by + 5) : 2;
  if (number < 1) {
    std::snprintf(reason, CARYA_OP_REASON, "by: got %d; give 1 or more", number);
    return 1;
  }
  if (in->dtype != CARYA_UINT8 || in->dimensions != 3) {
    std::snprintf(reason, CARYA_OP_REASON, "give a uint8 picture");
    return 1;
  }
  *out = *in;
  if (is("planes")) {
    out->dtype = CARYA_FLOAT32;
    out->dimensions = 2;
  }
  if (is("wrong")) out->shape[0] = -7;
  if (is("halved"))
    for (int i = 0; i < 2; ++i) out->shape[i] = in->shape[i] < 0 ? -1 : (in->shape[i] + 1) / 2;
  if (state != nullptr) *state = new (std::nothrow) int(number);
  return 0;
}

int run(const void* state, const carya_tensor* in, const void* in_data, const carya_tensor* out,
        void* out_data, carya_random* random, char* reason) {
  const auto* from = static_cast<const unsigned char*>(in_data);
  auto* to = static_cast<unsigned char*>(out_data);
  if (is("refusing") && from[0] % 2 == 1) {
    std::snprintf(reason, CARYA_OP_REASON, "the first value is %d", from[0]);
    return 1;
  }
  const long count = elements(out);
  if (is("planes")) {
    const long channels = in->shape[2];
    for (long i = 0; i < count; ++i) {
      float sum = 0;
      for (long c = 0; c < channels; ++c) sum += static_cast<float>(from[i * channels + c]);
      std::memcpy(to + 4 * i, &sum, 4);
    }
  } else if (is("halved")) {
    const long channels = in->shape[2];
    for (long y = 0; y < out->shape[0]; ++y)
      for (long x = 0; x < out->shape[1]; ++x)
        std::memcpy(to + (y * out->shape[1] + x) * channels, from + (2 * y * in->shape[1] + 2 * x) * channels,
                    static_cast<std::size_t>(channels));
  } else {
    const unsigned more = random ? random->next(random) & 7 : 0;
    for (long i = 0; i < count; ++i)
      to[i] =
          static_cast<unsigned char>(from[i] / static_cast<unsigned>(*static_cast<const int*>(state)) + more);
  }
  return 0;
}

void end(void* state) {
  delete static_cast<int*>(state);
}

const carya_op kOp = {VERSION, WHAT, 1, std::strcmp(WHAT, "divided") == 0, CARYA_OP_DIGEST, plan, run, end};

}  // namespace

#ifndef NO_ENTRY
extern "C" const carya_op* carya_op_entry() {
  return &kOp;
}
#endif
