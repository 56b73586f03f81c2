#include "transforms/kernels/codec/jpeg_memory.h"

#include <type_traits>

#include <jerror.h>

#include "base/error.h"

namespace carya::transforms {
namespace {

// The library's SIMD code writes whole vectors: rows are multiples of twice its widest one.
// Source: libjpeg-turbo 2.1.5, jmemmgr.c, ALIGN_SIZE.
constexpr std::size_t kRowAlign = 64;

[[noreturn]] void fail_with(j_common_ptr cinfo, int message_code) {
  cinfo->err->msg_code = message_code;
  cinfo->err->msg_parm.i[0] = 0;
  (*cinfo->err->error_exit)(cinfo);
  __builtin_unreachable();  // error_exit jumps away
}

}  // namespace

/// A "virtual" array, here always whole in memory: coefficients of a file in several scans.
struct JpegMemory::BlockArray {
  JBLOCKARRAY rows;
  JDIMENSION row_count;
};

JpegMemory::JpegMemory() {
  static_assert(std::is_trivially_copyable_v<jpeg_memory_mgr>);
  methods_.alloc_small = alloc_small;
  methods_.alloc_large = alloc_small;
  methods_.alloc_sarray = alloc_samples;
  methods_.alloc_barray = alloc_blocks;
  methods_.request_virt_sarray = request_samples;
  methods_.request_virt_barray = request_blocks;
  methods_.realize_virt_arrays = realize;
  methods_.access_virt_sarray = access_samples;
  methods_.access_virt_barray = access_blocks;
  methods_.free_pool = free_pool;
  methods_.self_destruct = self_destruct;
  methods_.max_alloc_chunk = 1'000'000'000L;
}

JpegMemory& JpegMemory::of(j_common_ptr cinfo) {
  return *reinterpret_cast<JpegMemory*>(reinterpret_cast<char*>(cinfo->mem));
}

void JpegMemory::attach(j_common_ptr cinfo) {
  static_assert(std::is_standard_layout_v<jpeg_memory_mgr>);
  CHECK(reinterpret_cast<char*>(&methods_) == reinterpret_cast<char*>(this));
  original_ = cinfo->mem;
  cinfo->mem = &methods_;
}

void JpegMemory::detach(j_common_ptr cinfo) {
  cinfo->mem = original_;
}

bool JpegMemory::take_exhausted() {
  const bool was = exhausted_;
  exhausted_ = false;
  return was;
}

void* JpegMemory::alloc_small(j_common_ptr cinfo, int pool_id, std::size_t bytes) {
  JpegMemory& memory = of(cinfo);
  void* piece = (pool_id == JPOOL_PERMANENT ? memory.permanent_ : memory.image_).allocate(bytes);
  if (piece == nullptr) {
    memory.exhausted_ = true;
    fail_with(cinfo, JERR_OUT_OF_MEMORY);
  }
  return piece;
}

JSAMPARRAY JpegMemory::alloc_samples(j_common_ptr cinfo, int pool_id, JDIMENSION per_row, JDIMENSION rows) {
  const std::size_t stride = (std::size_t{per_row} + kRowAlign - 1) / kRowAlign * kRowAlign;
  auto* array = static_cast<JSAMPARRAY>(alloc_small(cinfo, pool_id, rows * sizeof(JSAMPROW)));
  auto* data = static_cast<JSAMPROW>(alloc_small(cinfo, pool_id, rows * stride));
  for (JDIMENSION y = 0; y < rows; ++y) array[y] = data + y * stride;
  return array;
}

JBLOCKARRAY JpegMemory::alloc_blocks(j_common_ptr cinfo, int pool_id, JDIMENSION per_row, JDIMENSION rows) {
  auto* array = static_cast<JBLOCKARRAY>(alloc_small(cinfo, pool_id, rows * sizeof(JBLOCKROW)));
  auto* data =
      static_cast<JBLOCKROW>(alloc_small(cinfo, pool_id, std::size_t{rows} * per_row * sizeof(JBLOCK)));
  for (JDIMENSION y = 0; y < rows; ++y) array[y] = data + std::size_t{y} * per_row;
  return array;
}

jvirt_sarray_ptr JpegMemory::request_samples(j_common_ptr cinfo, int, boolean, JDIMENSION, JDIMENSION,
                                             JDIMENSION) {
  fail_with(cinfo, JERR_NOT_COMPILED);  // only two-pass colour quantization, which is never asked for
}

jvirt_barray_ptr JpegMemory::request_blocks(j_common_ptr cinfo, int pool_id, boolean, JDIMENSION per_row,
                                            JDIMENSION rows, JDIMENSION) {
  auto* array = static_cast<BlockArray*>(alloc_small(cinfo, pool_id, sizeof(BlockArray)));
  array->rows = alloc_blocks(cinfo, pool_id, per_row, rows);
  array->row_count = rows;
  return reinterpret_cast<jvirt_barray_ptr>(array);
}

void JpegMemory::realize(j_common_ptr) {}

JSAMPARRAY JpegMemory::access_samples(j_common_ptr cinfo, jvirt_sarray_ptr, JDIMENSION, JDIMENSION, boolean) {
  fail_with(cinfo, JERR_NOT_COMPILED);
}

JBLOCKARRAY JpegMemory::access_blocks(j_common_ptr cinfo, jvirt_barray_ptr array, JDIMENSION start,
                                      JDIMENSION rows, boolean) {
  const auto* blocks = reinterpret_cast<const BlockArray*>(array);
  if (rows > blocks->row_count || start > blocks->row_count - rows) fail_with(cinfo, JERR_BAD_VIRTUAL_ACCESS);
  return blocks->rows + start;
}

void JpegMemory::free_pool(j_common_ptr cinfo, int pool_id) {
  JpegMemory& memory = of(cinfo);
  (pool_id == JPOOL_PERMANENT ? memory.permanent_ : memory.image_).reset();
}

void JpegMemory::self_destruct(j_common_ptr) {}

}  // namespace carya::transforms
