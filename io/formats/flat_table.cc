#include "io/formats/flat_table.h"

namespace carya::io {

FlatTable FlatTable::root(FlatBuffer& buffer) {
  return {buffer, buffer.number<std::uint32_t>(0)};
}

FlatTable::FlatTable(FlatBuffer& buffer, std::uint64_t place) : buffer_(&buffer), place_(place) {
  const std::int64_t back = buffer.number<std::int32_t>(place);
  const auto at = static_cast<std::int64_t>(place) - back;
  if (buffer.broken || at < 0) {
    buffer.broken = true;
    return;
  }
  const auto bytes = buffer.number<std::uint16_t>(static_cast<std::uint64_t>(at));
  if (bytes < 4 || buffer.at(static_cast<std::uint64_t>(at), bytes) == nullptr) {
    buffer.broken = true;
    return;
  }
  fields_ = static_cast<std::uint64_t>(at) + 4;
  field_count_ = (bytes - 4) / 2;
}

std::uint64_t FlatTable::place_of(std::uint32_t field) const {
  if (field >= field_count_) return 0;
  const auto offset = buffer_->number<std::uint16_t>(fields_ + 2 * std::uint64_t{field});
  return offset != 0 ? place_ + offset : 0;
}

std::uint64_t FlatTable::target_of(std::uint32_t field) const {
  const std::uint64_t place = place_of(field);
  return place != 0 ? place + buffer_->number<std::uint32_t>(place) : 0;
}

FlatTable FlatTable::table(std::uint32_t field) const {
  const std::uint64_t target = target_of(field);
  return target != 0 ? FlatTable(*buffer_, target) : FlatTable(*buffer_);
}

std::string_view FlatTable::string(std::uint32_t field) const {
  const std::uint64_t target = target_of(field);
  if (target == 0) return {};
  const auto size = buffer_->number<std::uint32_t>(target);
  const std::byte* from = buffer_->at(target + 4, size);
  return from != nullptr ? std::string_view(reinterpret_cast<const char*>(from), size) : std::string_view();
}

FlatVector FlatTable::vector(std::uint32_t field, std::uint32_t bytes) const {
  const std::uint64_t target = target_of(field);
  if (target == 0) return {};
  const auto size = buffer_->number<std::uint32_t>(target);
  if (buffer_->at(target + 4, std::uint64_t{size} * bytes) == nullptr) return {};
  return {*buffer_, target + 4, size};
}

FlatTable FlatVector::table(std::uint32_t i) const {
  const std::uint64_t place = place_ + 4 * std::uint64_t{i};
  return {*buffer_, place + number<std::uint32_t>(i)};
}

}  // namespace carya::io
