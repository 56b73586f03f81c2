#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace carya::io {

/// Whether another process or machine answers for a path (FUSE, virtiofs, NFS, SMB, 9p, Ceph, Lustre, ...), also for a
/// layer of an overlay that this process can see.
///
/// Calls of io_uring then wait in the caller's thread, one after the other. After a short read, io_uring may ask for
/// the rest at offset 0 (FUSE with direct I/O, Linux 6.18). The pool's threads do neither. False for "", and if the
/// kernel cannot say. Source: linux/magic.h.
bool storage_is_remote(const std::string& path);

/// The folders that the overlay on `device` is made of, by the text of /proc/self/mountinfo; empty where it is none.
/// Paths are those of whoever mounted it. Source: Linux, Documentation/filesystems/proc.rst and overlayfs.rst.
std::vector<std::string> overlay_layers(std::string_view mountinfo, dev_t device);

}  // namespace carya::io
