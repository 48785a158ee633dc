// Buffers that detect out-of-bounds reads and writes of kernels.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <new>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "infer/reference/kernels.h"
#include "tests/infer/support.h"

namespace folio::infer::test {

inline constexpr size_t kMisalignments = 9;
inline constexpr size_t kPageEnd = kMisalignments;  // placement: the buffer ends at an unreadable page
inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// A buffer that begins 0 to 8 elements after a 64-byte boundary, between guards with all bits set (NaN as floats), or
/// that ends right before an unreadable page.
template <typename T>
class Guarded {
 public:
  Guarded(std::span<const T> values, size_t placement) : size_(values.size()) {
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    const size_t numbers = 2 * kGuard + kMisalignments + values.size();
    bytes_ = (numbers * sizeof(T) + page - 1) / page * page + page;
    void* memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    begin_ = static_cast<T*>(memory);
    end_ = begin_ + (bytes_ - page) / sizeof(T);
    ::mprotect(end_, page, PROT_NONE);
    data_ = placement == kPageEnd ? end_ - size_ : begin_ + kGuard + placement;
    std::memset(static_cast<void*>(begin_), 0xFF, bytes_ - page);
    std::copy(values.begin(), values.end(), data_);
  }
  Guarded(size_t n, T value, size_t placement) : Guarded(std::vector<T>(n, value), placement) {}
  ~Guarded() { ::munmap(begin_, bytes_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  [[nodiscard]] T* data() { return data_; }
  [[nodiscard]] std::span<const T> values() const { return {data_, size_}; }
  [[nodiscard]] bool guards_hold() const { return untouched(begin_, data_) && untouched(data_ + size_, end_); }

 private:
  static constexpr size_t kGuard = 32;

  static bool untouched(const T* from, const T* to) {
    const auto bytes = std::as_bytes(std::span(from, to));
    return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0xFF}; });
  }

  size_t size_;
  size_t bytes_;
  T* begin_;
  T* end_;
  T* data_;
};

using Buffer = Guarded<float>;

/// Returns success if the buffer has the expected bits and nothing outside of it was written.
inline ::testing::AssertionResult wrote(const Buffer& got, std::span<const float> expected) {
  return got.guards_hold() ? same_bits(got.values(), expected) : ::testing::AssertionFailure() << "out of bounds";
}

/// Returns the lengths 0 to 2N + 1 for vectors of N lanes.
inline std::vector<size_t> short_lengths() {
  std::vector<size_t> lengths(2 * kernels::kLanes + 2);
  std::iota(lengths.begin(), lengths.end(), 0);
  return lengths;
}

/// Vector lengths around multiples of 16 and of kChunk = 1024, the number of terms of a partial sum.
inline const std::vector<size_t> kLongLengths{47,   64,   1008, 1023, 1024, 1025, 1039,
                                              1040, 1041, 2047, 2048, 2049, 3089, 4113};

inline std::vector<size_t> all_lengths() {
  auto lengths = short_lengths();
  lengths.insert(lengths.end(), kLongLengths.begin(), kLongLengths.end());
  return lengths;
}

/// Ranges [begin, end) of matrix rows: whole and partial groups of 16, one row, and no rows.
inline const std::vector<std::pair<size_t, size_t>> kRanges{{0, 16}, {0, 1},   {3, 20}, {15, 33},
                                                            {5, 5},  {16, 18}, {7, 44}};

/// A product of n_rows inputs of k values and a matrix. Only the outputs [begin, end) of each row are computed. `place`
/// (0 to kPageEnd) selects the placements of the buffers (see Guarded), which may differ.
struct MatmulCase {
  size_t k;
  size_t n_rows;
  size_t begin;
  size_t end;
  size_t place;
  bool accumulate;
};

}  // namespace folio::infer::test
