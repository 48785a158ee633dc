// What AddressSanitizer is told in the programs of the exercises. To be included by the file that has main().
#pragma once

// GoogleTest and LibTorch are not instrumented, so what they allocate and link is not judged: no leaks, and no second
// definitions. An abort of the standard library's checks gets a report with its place.
extern "C" const char* __asan_default_options();  // NOLINT: the sanitizer's name
extern "C" const char* __asan_default_options() {
  return "detect_leaks=0:detect_odr_violation=0:handle_abort=1:allocator_may_return_null=0:"
         "quarantine_size_mb=16:malloc_context_size=4";
}
