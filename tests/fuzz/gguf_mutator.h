// Changes a GGUF by its fields: keys, types, strings, arrays, dimensions, offsets, alignment. Most results have a
// valid layout, so that the fuzzer gets past the checks of the header.
#pragma once

#include <cstddef>
#include <cstdint>

namespace folio::fuzz {

/// Changes `size` bytes at `data` in place and returns the new size, at most `max_size`: LLVMFuzzerMutate.
using ByteMutator = size_t (*)(uint8_t* data, size_t size, size_t max_size);

/// The same for GGUF files, whose random choices follow from `seed`. `mutate_bytes` changes strings, tensor data, and
/// input that is not laid out as a GGUF.
size_t mutate_gguf(uint8_t* data, size_t size, size_t max_size, uint32_t seed, ByteMutator mutate_bytes);

}  // namespace folio::fuzz
