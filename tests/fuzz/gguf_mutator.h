// Mutates a GGUF by its fields: keys, types, strings, arrays, dimensions, offsets, alignment. Most results have a valid
// layout, so that the fuzzer gets past the header checks.
#pragma once

#include <cstddef>
#include <cstdint>

namespace folio::fuzz {

/// Changes `size` bytes at `data` in place and returns the new size, at most `max_size`, as LLVMFuzzerMutate does.
using ByteMutator = size_t (*)(uint8_t* data, size_t size, size_t max_size);

/// Mutates a GGUF file in the same way; `seed` determines all random choices. `mutate_bytes` changes strings, tensor
/// data, and input without a GGUF's layout.
size_t mutate_gguf(uint8_t* data, size_t size, size_t max_size, uint32_t seed, ByteMutator mutate_bytes);

}  // namespace folio::fuzz
