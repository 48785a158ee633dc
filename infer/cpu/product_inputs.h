// The inputs of a product, converted to the formats that its matrices read. A segment is a range of inputs that are
// multiplied by one matrix: usually all inputs; with a matrix per expert or head, the inputs of one expert or head.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "core/aligned_vector.h"
#include "core/thread_pool.h"
#include "infer/cpu/cpu.h"
#include "infer/cpu/matrix.h"

namespace folio::infer {

/// Inputs [first, first + n) of a product.
struct Segment {
  size_t first;
  size_t n;
};

class ProductInputs {
 public:
  /// Input formats that a product's matrices read: float, 8-bit groups, or BF16 (for panels).
  struct Formats {
    bool floats = false;
    bool groups = false;
    bool panels = false;
    void add(const Matrix& m) { (m.in_groups() ? groups : m.in_panels() ? panels : floats) = true; }
  };

  ProductInputs(core::ThreadPool& pool, const kernels::Kernels& kernels) : pool_(pool), kernels_(kernels) {}

  /// Converts inputs x (n, k) on all threads. The segments must be adjacent and in order. x must not change until the
  /// product ends.
  template <typename Segments>
  void take(const Segments& segments, size_t k, const Formats& formats, const float* x) {
    floats_ = x;
    reserve(segments, k, formats);
    if (formats.groups || formats.panels) convert([&](const Segment& piece) { return x + piece.first * k_; });
  }
  /// Converts inputs that are not adjacent in memory. Calls write(first, n, to) on all threads, which must copy inputs
  /// [first, first + n) to `to` (n, k).
  template <typename Segments, typename Write>
  void gather(const Segments& segments, size_t k, const Formats& formats, Write&& write) {
    reserve(segments, k, formats);
    if (formats.floats) resize(gathered_, n_ * k);
    floats_ = gathered_.data();
    convert([&](const Segment& piece) -> const float* {
      thread_local core::AlignedVector<float> rows;
      if (!formats_.floats) resize(rows, kTogether * k_);
      float* to = formats_.floats ? gathered_.data() + piece.first * k_ : rows.data();
      write(piece.first, piece.n, to);
      return to;
    });
  }

  /// Returns a segment's inputs, in the formats of the last take() or gather(). Valid until the next call of either.
  [[nodiscard]] InputsView of(const Segment& s) const {
    return {.floats = formats_.floats ? floats_ + s.first * k_ : nullptr,
            .packed = nullptr,
            .fast = formats_.panels ? rounded_.data() + s.first * kernels::panel_columns(k_) : nullptr,
            .quantized = formats_.groups ? from(quantized_, s.first, k_) : kernels::QuantizedInputs{},
            .n_rows = s.n};
  }

 private:
  static constexpr size_t kTogether = 16;  // maximum number of inputs per call of Kernels::quantize

  // Never shrinks a buffer, because growing it again would zero elements needlessly.
  static void resize(auto& buffer, size_t size) { buffer.resize(std::max(buffer.size(), size)); }

  template <typename Segments>
  void reserve(const Segments& segments, size_t k, const Formats& formats) {
    k_ = k;
    n_ = 0;
    formats_ = formats;
    pieces_.clear();
    const size_t together = formats.groups ? kTogether : 1;
    for (const Segment& s : segments) {
      for (size_t i = 0; i < s.n; i += together) pieces_.push_back({s.first + i, std::min(together, s.n - i)});
      n_ = s.first + s.n;
    }
    if (formats.panels) resize(rounded_, n_ * kernels::panel_columns(k));
    if (!formats.groups) return;
    const size_t groups = n_ * (k / kernels::kGroupColumns);
    resize(values_, n_ * k);
    resize(scales_, groups);
    resize(scaled_sums_, groups);
    resize(sums_, groups * 3);
    quantized_ = {
        .values = values_.data(), .scales = scales_.data(), .scaled_sums = scaled_sums_.data(), .sums = sums_.data()};
  }

  // Converts all pieces_; rows_of(piece) returns the inputs (n, k) of a piece.
  template <typename RowsOf>
  void convert(RowsOf&& rows_of) {
    const size_t columns = kernels::panel_columns(k_);
    pool_.parallel_for(pieces_.size(), 1, n_ * k_ / kWorthAThread, [&](size_t begin, size_t end) {
      for (const Segment& piece : std::span(pieces_).subspan(begin, end - begin)) {
        const float* x = rows_of(piece);
        if (formats_.groups) kernels_.quantize(x, piece.n, k_, from(quantized_, piece.first, k_));
        for (size_t i = 0; formats_.panels && i < piece.n; ++i) {
          kernels_.to_fast(x + i * k_, k_, &rounded_[(piece.first + i) * columns]);
        }
      }
    });
  }

  core::ThreadPool& pool_;
  const kernels::Kernels& kernels_;
  Formats formats_;
  size_t k_ = 0;
  size_t n_ = 0;
  const float* floats_ = nullptr;
  std::vector<Segment> pieces_;           ///< segments split into ranges of at most kTogether inputs
  core::AlignedVector<float> gathered_;   ///< (n, k), filled by gather()
  std::vector<kernels::BF16> rounded_;    ///< (n, panel_columns(k)), inputs rounded to BF16
  kernels::QuantizedInputs quantized_{};  ///< pointers to the four buffers below
  core::AlignedVector<int8_t> values_;    ///< aligned, so that no group spans two cache lines
  std::vector<float> scales_;
  std::vector<float> scaled_sums_;
  std::vector<int32_t> sums_;
};

}  // namespace folio::infer
