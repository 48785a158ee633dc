// Mutates a GGUF file by its fields: keys, types, strings, arrays, dimensions, offsets, alignment. Most results have a
// valid layout, so that they pass the header checks and the fuzzer also tests later code.
#pragma once

#include <cstddef>
#include <cstdint>

namespace folio::fuzz {

/// Changes `size` bytes at `data` in place and returns the new size, at most `max_size`, as LLVMFuzzerMutate does.
using ByteMutator = size_t (*)(uint8_t* data, size_t size, size_t max_size);

/// Mutates the GGUF file of `size` bytes at `data` in place and returns the new size, at most `max_size`. `seed`
/// determines all random choices. `mutate_bytes` changes strings, tensor data, and input that isn't a GGUF file.
size_t mutate_gguf(uint8_t* data, size_t size, size_t max_size, uint32_t seed, ByteMutator mutate_bytes);

}  // namespace folio::fuzz
