// AddressSanitizer's options for the exercises. Include it in the file with main().
#pragma once

// Leak and ODR checks are off because GoogleTest and LibTorch are not instrumented. handle_abort reports failed
// assertions of the standard library with their stack. max_allocation_size_mb ends a loop that appends forever before
// it uses up the machine's memory.
extern "C" const char* __asan_default_options();  // NOLINT: the sanitizer's name
extern "C" const char* __asan_default_options() {
  return "detect_leaks=0:detect_odr_violation=0:handle_abort=1:allocator_may_return_null=0:"
         "max_allocation_size_mb=2048:quarantine_size_mb=16:malloc_context_size=8";
}
