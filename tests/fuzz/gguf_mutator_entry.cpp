// Makes libFuzzer call mutate_gguf() instead of its own mutations of bytes.
#include "tests/fuzz/gguf_mutator.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  return folio::fuzz::mutate_gguf(data, size, max_size, seed, LLVMFuzzerMutate);
}
