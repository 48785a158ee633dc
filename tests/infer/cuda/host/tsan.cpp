// Defines the functions that code compiled with -fsanitize=thread calls at each memory access, in place of
// ThreadSanitizer's own library. They can't throw, so an error is reported at the end of a block.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tests/infer/cuda/host/counts.h"
#include "tests/infer/cuda/host/races.h"

// NOLINTBEGIN: the compiler requires these names
namespace races = folio::infer::gpu::host::races;

#define FOLIO_TSAN_SIZE(bytes)                                                                                \
  void __tsan_read##bytes(void* p) { races::read(p, bytes, __builtin_return_address(0)); }                    \
  void __tsan_write##bytes(void* p) { races::write(p, bytes, __builtin_return_address(0)); }                  \
  void __tsan_unaligned_read##bytes(void* p) { races::read(p, bytes, __builtin_return_address(0)); }          \
  void __tsan_unaligned_write##bytes(void* p) { races::write(p, bytes, __builtin_return_address(0)); }        \
  void __tsan_volatile_read##bytes(void* p) { races::read(p, bytes, __builtin_return_address(0)); }           \
  void __tsan_volatile_write##bytes(void* p) { races::write(p, bytes, __builtin_return_address(0)); }         \
  void __tsan_unaligned_volatile_read##bytes(void* p) { races::read(p, bytes, __builtin_return_address(0)); } \
  void __tsan_unaligned_volatile_write##bytes(void* p) { races::write(p, bytes, __builtin_return_address(0)); }

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) { folio::infer::gpu::host::counting::enter(); }
void __tsan_func_exit() { folio::infer::gpu::host::counting::leave(); }
// Called in each basic block of code compiled with -fsanitize-coverage=trace-pc.
void __sanitizer_cov_trace_pc() { folio::infer::gpu::host::counting::basic_block(__builtin_return_address(0)); }
void __tsan_vptr_read(void**) {}
void __tsan_vptr_update(void**, void*) {}

FOLIO_TSAN_SIZE(1)
FOLIO_TSAN_SIZE(2)
FOLIO_TSAN_SIZE(4)
FOLIO_TSAN_SIZE(8)
FOLIO_TSAN_SIZE(16)

void __tsan_read_range(void* p, size_t bytes) { races::read(p, bytes, __builtin_return_address(0)); }
void __tsan_write_range(void* p, size_t bytes) { races::write(p, bytes, __builtin_return_address(0)); }

// clang calls these functions for copies and fills.
void* __tsan_memcpy(void* to, const void* from, size_t bytes) {
  races::read(from, bytes, __builtin_return_address(0));
  races::write(to, bytes, __builtin_return_address(0));
  return std::memcpy(to, from, bytes);
}
void* __tsan_memmove(void* to, const void* from, size_t bytes) {
  races::read(from, bytes, __builtin_return_address(0));
  races::write(to, bytes, __builtin_return_address(0));
  return std::memmove(to, from, bytes);
}
void* __tsan_memset(void* to, int byte, size_t bytes) {
  races::write(to, bytes, __builtin_return_address(0));
  return std::memset(to, byte, bytes);
}

// Called for the guard of a static variable in a function.
uint8_t __tsan_atomic8_load(const volatile uint8_t* p, int) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); }
}
// NOLINTEND
