#include "infer/cpu/packed_inputs.h"

#include <algorithm>
#include <atomic>

#include "infer/cpu/cpu.h"

namespace folio::infer {
namespace {

struct Own {
  core::AlignedVector<float> packed;
  uint64_t number = 0;  ///< PackedInputs::number_ of the product whose inputs are in `packed`
};

thread_local Own own;

// Grows `packed` to at least `size` floats. Never shrinks it, because growing it again would zero elements needlessly.
float* at_least(core::AlignedVector<float>& packed, size_t size) {
  packed.resize(std::max(packed.size(), size));
  return packed.data();
}

}  // namespace

void PackedInputs::begin(const float* x, size_t n_rows, size_t k) {
  static std::atomic<uint64_t> n_products{0};
  x_ = x;
  n_rows_ = n_rows;
  k_ = k;
  number_ = ++n_products;
  if (each_for_itself()) return;
  float* out = at_least(shared_, room());
  pool_.parallel_for(n_groups(), 1, n_rows * k / kWorthAThread,
                     [&](size_t begin, size_t end) { pack(begin, end, out); });
}

const float* PackedInputs::of_thread() const {
  if (!each_for_itself()) return shared_.data();
  if (own.number != number_) {
    pack(0, n_groups(), at_least(own.packed, room()));
    own.number = number_;
  }
  return own.packed.data();
}

// Packs groups [first, last) of kernels_.packed_inputs inputs each.
void PackedInputs::pack(size_t first, size_t last, float* out) const {
  const size_t together = kernels_.packed_inputs;
  for (size_t i = first * together; i < std::min(n_rows_, last * together); i += together)
    kernels_.pack(x_ + i * k_, std::min(together, n_rows_ - i), k_, out + i * kernels::in_lanes(k_));
}

}  // namespace folio::infer
