#include "short_memory.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CARYA_OWN_ALLOCATOR 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CARYA_OWN_ALLOCATOR 0
#endif
#endif
#ifndef CARYA_OWN_ALLOCATOR
#define CARYA_OWN_ALLOCATOR 1
#endif

namespace {

std::atomic<bool> watching{false};
std::atomic<std::int64_t> until_failure{0};
thread_local bool spared = false;
thread_local std::int64_t until_failure_here = 0;  // 0: none is to fail; less: one has
thread_local int spared_here = 0;

#if CARYA_OWN_ALLOCATOR
void* allocate(std::size_t bytes, std::size_t align) {
  if (watching.load(std::memory_order_relaxed) && !spared && until_failure.fetch_sub(1) == 1)
    throw std::bad_alloc();
  if (until_failure_here > 0 && spared_here == 0 && --until_failure_here == 0) {
    until_failure_here = -1;
    throw std::bad_alloc();
  }
  void* memory = nullptr;
  if (align <= __STDCPP_DEFAULT_NEW_ALIGNMENT__)
    memory = std::malloc(bytes == 0 ? 1 : bytes);
  else
    memory = std::aligned_alloc(align, (bytes + align - 1) / align * align);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
#endif

}  // namespace

#if CARYA_OWN_ALLOCATOR

void* operator new(std::size_t bytes) {
  return allocate(bytes, 1);
}
void* operator new[](std::size_t bytes) {
  return allocate(bytes, 1);
}
void* operator new(std::size_t bytes, std::align_val_t align) {
  return allocate(bytes, static_cast<std::size_t>(align));
}
void* operator new[](std::size_t bytes, std::align_val_t align) {
  return allocate(bytes, static_cast<std::size_t>(align));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
#endif

namespace carya::loader {

ShortMemory::ShortMemory(std::int64_t nth) {
  spared = true;
  until_failure = nth;
  watching = true;
}

ShortMemory::~ShortMemory() {
  watching = false;
  spared = false;
}

bool ShortMemory::possible() {
  return CARYA_OWN_ALLOCATOR != 0;
}

bool ShortMemory::failed() const {
  return until_failure.load() <= 0;
}

ShortMemoryHere::ShortMemoryHere(std::int64_t nth) {
  until_failure_here = nth;
}

ShortMemoryHere::~ShortMemoryHere() {
  until_failure_here = 0;
}

bool ShortMemoryHere::failed() {
  return until_failure_here < 0;
}

MemorySpared::MemorySpared() {
  ++spared_here;
}

MemorySpared::~MemorySpared() {
  --spared_here;
}

}  // namespace carya::loader
