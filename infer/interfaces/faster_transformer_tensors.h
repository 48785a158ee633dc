// Reads a call's input tensors by name, and checks types, shapes and ranges. Errors name the tensor and the remedy.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "infer/interfaces/faster_transformer.h"

namespace folio::infer::faster_transformer {

/// Returns a shape as text, such as "[2, 3]".
[[nodiscard]] std::string shape_text(std::span<const size_t> shape);

/// Throws core::Error unless the tensor has this shape. The message includes `why`, an explanation that may be empty.
void require_shape(std::string_view name, const Tensor& tensor, std::initializer_list<size_t> shape,
                   std::string_view why = "");
/// Throws core::Error unless the tensor has data of one of these types in CPU memory.
void require_data(std::string_view name, const Tensor& tensor, std::initializer_list<DataType> types);

/// Stop words or bad words of a sequence, each a list of tokens.
using Words = std::vector<std::vector<int32_t>>;

class Inputs {
 public:
  /// Refers to `tensors`, which must outlive this object. Throws core::Error if a tensor is unknown or not supported.
  explicit Inputs(const TensorMap& tensors);

  /// Returns a required tensor of integers. Throws core::Error if the tensor is missing or does not have `n_dimensions`
  /// dimensions. The message contains `needs`, the expected shape.
  [[nodiscard]] const Tensor& required(std::string_view name, size_t n_dimensions, std::string_view needs) const;

  /// Returns one value for each of `n` sequences, from a tensor of n values or of one value for all; empty if there is
  /// no such tensor. T is int64_t, uint64_t or float. Throws core::Error unless all values are in [low, high].
  template <typename T>
  [[nodiscard]] std::vector<T> of_each(std::string_view name, size_t n, T low, T high) const;
  /// Returns the value of a tensor with one bool; false if there is no such tensor.
  [[nodiscard]] bool flag(std::string_view name) const;

  /// Returns the words of each sequence from a tensor (n, 2, L), or (2, L) for all sequences: row 0 has the token ids
  /// of all words, row 1 the end offset of each word, or -1, which is ignored. Empty if there is no such tensor.
  [[nodiscard]] std::vector<Words> words_of_each(std::string_view name, size_t n, int64_t vocab_size) const;

 private:
  [[nodiscard]] const Tensor* find(std::string_view name) const;
  [[nodiscard]] const Tensor* values_of_each(std::string_view name, size_t n,
                                             std::initializer_list<DataType> types) const;

  const TensorMap& tensors_;
};

/// Returns element i of a tensor of integers.
[[nodiscard]] int64_t integer_at(const Tensor& tensor, size_t i);

/// Throws core::Error if an output tensor is unknown, or not supported by this engine.
void check_output_names(const TensorMap& tensors);

}  // namespace folio::infer::faster_transformer
