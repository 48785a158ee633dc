// Implements the shuffle functions of kernel_host.h for types of 4 or 8 bytes. Included only by kernel_host.h.
#pragma once

#include <bit>
#include <cstdint>
#include <source_location>
#include <type_traits>

namespace folio::infer::gpu {
namespace host {

uint64_t shuffle_from(unsigned mask, uint64_t bits, int lane, std::source_location at);
uint64_t shuffle_xor(unsigned mask, uint64_t bits, int lanes, std::source_location at);
uint64_t shuffle_down(unsigned mask, uint64_t bits, unsigned by, std::source_location at);
uint64_t shuffle_up(unsigned mask, uint64_t bits, unsigned by, std::source_location at);

template <typename T>
using BitsOf = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <typename T>
uint64_t to_bits(T value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  return std::bit_cast<BitsOf<T>>(value);
}
template <typename T>
T from_bits(uint64_t bits) {
  return std::bit_cast<T>(static_cast<BitsOf<T>>(bits));
}

}  // namespace host

template <typename T>
T __shfl_sync(unsigned mask, T value, int lane, std::source_location at) {
  return host::from_bits<T>(host::shuffle_from(mask, host::to_bits(value), lane, at));
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, std::source_location at) {
  return host::from_bits<T>(host::shuffle_xor(mask, host::to_bits(value), lanes, at));
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned by, std::source_location at) {
  return host::from_bits<T>(host::shuffle_down(mask, host::to_bits(value), by, at));
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, std::source_location at) {
  return host::from_bits<T>(host::shuffle_up(mask, host::to_bits(value), by, at));
}

}  // namespace folio::infer::gpu
