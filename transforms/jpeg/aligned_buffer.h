#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>

namespace carya::jpeg {

/// Scratch memory of plain values that starts on a cache line and only grows. Growing zeroes everything. The alignment
/// keeps each block of coefficients within its lines, whatever the width of the vectors that read it.
template <typename T>
class AlignedBuffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  void grow(std::size_t count) {
    if (count <= count_) return;
    data_.reset(static_cast<T*>(::operator new(count * sizeof(T), kAlign)));
    std::uninitialized_value_construct_n(data_.get(), count);
    count_ = count;
  }
  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  std::size_t size() const { return count_; }
  T& operator[](std::size_t i) { return data_.get()[i]; }
  const T& operator[](std::size_t i) const { return data_.get()[i]; }

 private:
  static constexpr std::align_val_t kAlign{64};
  struct Free {
    void operator()(T* data) const { ::operator delete(data, kAlign); }
  };
  std::unique_ptr<T, Free> data_;
  std::size_t count_ = 0;
};

}  // namespace carya::jpeg
