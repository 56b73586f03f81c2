#pragma once

#include <cstddef>
#include <cstdio>
#include <vector>

#include <jpeglib.h>

#include "transforms/kernels/image/arena.h"

namespace carya::transforms {

/// libjpeg's memory manager on two arenas, one for each pool. So a decoder in steady state takes nothing from the heap,
/// and no piece holds bytes of an earlier picture. attach() puts it into cinfo->mem after jpeg_create_decompress.
/// detach() takes it out before jpeg_destroy_decompress, which frees what the library's own manager allocated. Threads:
/// owner only.
class JpegMemory {
 public:
  JpegMemory();
  JpegMemory(const JpegMemory&) = delete;
  JpegMemory& operator=(const JpegMemory&) = delete;

  void attach(j_common_ptr cinfo);
  void detach(j_common_ptr cinfo);

  /// Forget the tables that earlier pictures left in the permanent pool. The caller has cleared the pointers to them.
  void reset_permanent() { permanent_.reset(); }
  /// Whether a request failed since the last call.
  bool take_exhausted();

 private:
  struct BlockArray;
  static JpegMemory& of(j_common_ptr cinfo);
  static void* alloc_small(j_common_ptr cinfo, int pool_id, std::size_t bytes);
  static JSAMPARRAY alloc_samples(j_common_ptr cinfo, int pool_id, JDIMENSION per_row, JDIMENSION rows);
  static JBLOCKARRAY alloc_blocks(j_common_ptr cinfo, int pool_id, JDIMENSION per_row, JDIMENSION rows);
  static jvirt_sarray_ptr request_samples(j_common_ptr cinfo, int pool_id, boolean pre_zero,
                                          JDIMENSION per_row, JDIMENSION rows, JDIMENSION access_max);
  static jvirt_barray_ptr request_blocks(j_common_ptr cinfo, int pool_id, boolean pre_zero,
                                         JDIMENSION per_row, JDIMENSION rows, JDIMENSION access_max);
  static void realize(j_common_ptr cinfo);
  static JSAMPARRAY access_samples(j_common_ptr cinfo, jvirt_sarray_ptr array, JDIMENSION start,
                                   JDIMENSION rows, boolean writable);
  static JBLOCKARRAY access_blocks(j_common_ptr cinfo, jvirt_barray_ptr array, JDIMENSION start,
                                   JDIMENSION rows, boolean writable);
  static void free_pool(j_common_ptr cinfo, int pool_id);
  static void self_destruct(j_common_ptr cinfo);

  jpeg_memory_mgr methods_{};  // first, so that of() finds this object from cinfo->mem
  jpeg_memory_mgr* original_ = nullptr;
  Arena permanent_;
  Arena image_;
  bool exhausted_ = false;
};

}  // namespace carya::transforms
