#include "shm/slot_layout.h"

#include <fmt/core.h>
#include <algorithm>
#include <cstring>
#include <limits>

#include "base/checked.h"
#include "shm/region.h"

namespace carya::shm {
namespace {

constexpr std::uint64_t kTableMagic = 0x314c'5341'5952'4143;  // "CARYASL1", first byte lowest
constexpr std::uint32_t kTableVersion = 1;
constexpr std::uint64_t kTensorAlign = 64;
constexpr std::uint64_t kDataAlign = 4096;
constexpr std::uint64_t kBytesMax = 1ull << 48;
constexpr std::size_t kNameMax = 63;
constexpr std::size_t kDimensionsMax = 8;

/// The table's bytes at the start of a slot (FORMAT.md).
struct TableHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t tensors;
  std::uint64_t slot_bytes;
  std::uint64_t data_offset;
  std::uint64_t reserved[4];
};
struct TableEntry {
  char name[kNameMax + 1];
  std::uint8_t dtype;
  std::uint8_t dimensions;
  std::uint8_t reserved[6];
  std::uint64_t offset;
  std::uint64_t bytes;
  std::uint64_t shape[kDimensionsMax];
};
static_assert(sizeof(TableHeader) == 64 && offsetof(TableHeader, slot_bytes) == 16);
static_assert(sizeof(TableEntry) == 152 && offsetof(TableEntry, dtype) == 64);
static_assert(offsetof(TableEntry, offset) == 72 && offsetof(TableEntry, shape) == 88);

std::uint64_t data_offset(std::uint64_t tensors) {
  return align_up(sizeof(TableHeader) + tensors * sizeof(TableEntry), kDataAlign);
}

/// The reason why a tensor cannot be in a slot, or nullptr.
const char* complaint(const SlotTensor& tensor) {
  if (tensor.name.empty() || tensor.name.size() > kNameMax) return "a name has 1 to 63 bytes";
  if (tensor.name.find('\0') != std::string::npos) return "a name has no zero byte";
  if (dtype_bytes(tensor.dtype) == 0) return "unknown dtype";
  if (tensor.shape.size() > kDimensionsMax) return "at most 8 dimensions";
  if (tensor.bytes() > kBytesMax) return "more than 2^48 bytes";
  return nullptr;
}

Status corrupt_table(const std::string& what) {
  return fail(Code::kCorrupt, "slot table: " + what);
}

/// Check an entry of a foreign table and append it. `end` is where the tensor before it ends.
Status take_entry(const TableEntry& entry, std::uint64_t end, std::uint64_t slot_bytes,
                  std::vector<SlotTensor>& tensors) {
  SlotTensor tensor;
  tensor.name.assign(entry.name, strnlen(entry.name, sizeof(entry.name)));
  tensor.dtype = static_cast<DType>(entry.dtype);
  if (entry.dimensions > kDimensionsMax)
    return corrupt_table(fmt::format("a tensor has {} dimensions", entry.dimensions));
  tensor.shape.assign(entry.shape, entry.shape + entry.dimensions);
  tensor.offset = entry.offset;
  if (const char* why = complaint(tensor)) return corrupt_table(why);
  const std::uint64_t bytes = tensor.bytes();
  const auto stop = checked_add(entry.offset, bytes);
  if (bytes != entry.bytes || entry.offset % kTensorAlign != 0 || entry.offset < end || !stop ||
      *stop > slot_bytes) {
    return corrupt_table(fmt::format("{} @{} of {} B does not fit its shape or its slot of {} B", tensor.name,
                                     entry.offset, entry.bytes, slot_bytes));
  }
  for (const SlotTensor& other : tensors) {
    if (other.name == tensor.name) return corrupt_table(tensor.name + " is there twice");
  }
  tensors.push_back(std::move(tensor));
  return {};
}

}  // namespace

std::uint64_t SlotTensor::bytes() const {
  std::uint64_t total = dtype_bytes(dtype);
  for (const std::uint64_t extent : shape) {
    const auto product = checked_mul(total, extent);
    if (!product) return std::numeric_limits<std::uint64_t>::max();
    total = *product;
  }
  return total;
}

Result<SlotLayout> SlotLayout::create(std::vector<SlotTensor> tensors) {
  if (tensors.size() > kTensorsMax) {
    return fail(Code::kInvalidArgument,
                fmt::format("slot layout: {} tensors, at most {}", tensors.size(), kTensorsMax));
  }
  std::uint64_t offset = data_offset(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    SlotTensor& tensor = tensors[i];
    if (const char* why = complaint(tensor)) {
      return fail(Code::kInvalidArgument, "slot layout: tensor '" + tensor.name + "': " + why);
    }
    const auto same_name = [&](const SlotTensor& other) { return other.name == tensor.name; };
    if (std::any_of(tensors.begin(), tensors.begin() + static_cast<std::ptrdiff_t>(i), same_name)) {
      return fail(Code::kInvalidArgument, "slot layout: tensor '" + tensor.name + "' is there twice");
    }
    tensor.offset = offset;
    offset = align_up(offset + tensor.bytes(), kTensorAlign);  // both below 2^49: no overflow
    if (offset > kBytesMax) {
      return fail(Code::kInvalidArgument,
                  "slot layout: more than 2^48 bytes up to tensor '" + tensor.name + "'");
    }
  }
  SlotLayout layout;
  layout.tensors_ = std::move(tensors);
  layout.slot_bytes_ = align_up(offset, kSlotAlign);
  return layout;
}

Result<SlotLayout> SlotLayout::parse(const std::byte* slot, std::uint64_t slot_bytes) {
  if (slot_bytes < kSlotAlign || slot_bytes % kSlotAlign != 0) {
    return fail(Code::kCorrupt, fmt::format("slot table: a slot of {} B", slot_bytes));
  }
  TableHeader header;
  std::memcpy(&header, slot, sizeof(header));  // copied once, since the other side may change it at any time
  if (header.magic != kTableMagic || header.version != kTableVersion) {
    return fail(Code::kCorrupt, "slot table: not a table of version 1");
  }
  if (header.tensors > kTensorsMax || header.slot_bytes != slot_bytes ||
      header.data_offset != data_offset(header.tensors)) {
    return fail(Code::kCorrupt, fmt::format("slot table: {} tensors in {} B, the slot has {} B",
                                            header.tensors, header.slot_bytes, slot_bytes));
  }
  SlotLayout layout;
  layout.slot_bytes_ = slot_bytes;
  std::uint64_t end = header.data_offset;
  for (std::uint32_t i = 0; i < header.tensors; ++i) {
    TableEntry entry;
    std::memcpy(&entry, slot + sizeof(header) + i * sizeof(entry), sizeof(entry));
    TRY(take_entry(entry, end, slot_bytes, layout.tensors_));
    end = entry.offset + entry.bytes;
  }
  return layout;
}

void SlotLayout::write(std::byte* slot) const {
  TableHeader header{};
  header.magic = kTableMagic;
  header.version = kTableVersion;
  header.tensors = static_cast<std::uint32_t>(tensors_.size());
  header.slot_bytes = slot_bytes_;
  header.data_offset = data_offset(tensors_.size());
  std::memcpy(slot, &header, sizeof(header));
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const SlotTensor& tensor = tensors_[i];
    TableEntry entry{};
    std::memcpy(entry.name, tensor.name.data(), tensor.name.size());
    entry.dtype = static_cast<std::uint8_t>(tensor.dtype);
    entry.dimensions = static_cast<std::uint8_t>(tensor.shape.size());
    entry.offset = tensor.offset;
    entry.bytes = tensor.bytes();
    std::copy(tensor.shape.begin(), tensor.shape.end(), entry.shape);
    std::memcpy(slot + sizeof(header) + i * sizeof(entry), &entry, sizeof(entry));
  }
}

}  // namespace carya::shm
