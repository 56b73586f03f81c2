#include "loader/data/mapped_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <fmt/core.h>
#include <cerrno>
#include <fstream>
#include <optional>
#include <sstream>

namespace carya::loader {
namespace {

/// A line of /proc/self/maps.
struct Mapping {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t offset = 0;
  ino_t inode = 0;
  bool writable = false;
  std::string path;
};

std::optional<Mapping> parse(const std::string& line) {
  Mapping found;
  std::string permissions;
  std::string device;  // another one than stat() says on some file systems
  char dash = 0;
  std::istringstream in(line);
  in >> std::hex >> found.begin >> dash >> found.end >> permissions >> found.offset >> device >> std::dec >>
      found.inode >> std::ws;
  if (!in || permissions.size() < 2 || found.inode == 0) return std::nullopt;
  std::getline(in, found.path);
  found.writable = permissions[1] == 'w';
  return found;
}

std::optional<Mapping> mapping_of(std::uint64_t address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const std::optional<Mapping> mapping = parse(line);
    if (mapping && mapping->begin <= address && address < mapping->end) return mapping;
  }
  return std::nullopt;
}

std::int64_t changed_ns(const struct stat& facts) {
  return facts.st_mtim.tv_sec * 1'000'000'000 + facts.st_mtim.tv_nsec;
}

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::find(std::span<const std::byte> memory) {
  const auto address = reinterpret_cast<std::uint64_t>(memory.data());
  const std::optional<Mapping> mapping = mapping_of(address);
  if (!mapping || mapping->path.empty() || mapping->path[0] != '/') return nullptr;
  UniqueFd fd(open(mapping->path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat facts{};
  if (!fd || fstat(fd.get(), &facts) != 0 || facts.st_ino != mapping->inode || !S_ISREG(facts.st_mode))
    return nullptr;
  std::shared_ptr<MappedFile> file(new MappedFile);
  file->fd_ = std::move(fd);
  file->path_ = mapping->path;
  file->bytes_ = mapping->offset + (address - mapping->begin) + memory.size();
  if (!mapping->writable) file->changed_ns_ = changed_ns(facts);
  return file;
}

Status MappedFile::check() const {
  struct stat facts{};
  if (fstat(fd_.get(), &facts) != 0) return fail_errno("stat " + path_, errno);
  if (static_cast<std::uint64_t>(facts.st_size) < bytes_)
    return fail(Code::kIo, fmt::format("arrays: {} was truncated while it is used: it has {} B, the array "
                                       "ends at {} B; restore it and open it again",
                                       path_, facts.st_size, bytes_));
  if (changed_ns_ != 0 && changed_ns(facts) != changed_ns_)
    return fail(Code::kIo, "arrays: " + path_ + " was written to while it is used; open it again");
  return {};
}

}  // namespace carya::loader
