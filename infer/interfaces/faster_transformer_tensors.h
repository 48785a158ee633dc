// The tensors of a call as they are read: each is looked up by its name, and checked against the type, the shape and
// the range that it needs. An error names the tensor, what it has and what it needs.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "infer/interfaces/faster_transformer.h"

namespace folio::infer::faster_transformer {

/// "[2, 3]"
[[nodiscard]] std::string shape_text(std::span<const size_t> shape);

/// Throws core::Error unless the tensor has this shape; `why` says what it is, and may be empty.
void require_shape(std::string_view name, const Tensor& tensor, std::initializer_list<size_t> shape,
                   std::string_view why = "");
/// Throws core::Error unless the tensor has data of one of these types, in the CPU's memory.
void require_data(std::string_view name, const Tensor& tensor, std::initializer_list<DataType> types);

/// A word is the tokens that it has.
using Words = std::vector<std::vector<int32_t>>;

class Inputs {
 public:
  /// Throws core::Error if a tensor is there that is not known, or that the original has and this engine does not.
  explicit Inputs(const TensorMap& tensors);

  /// Returns a tensor of integers, which must be there. `needs` is in the message where it has another number of
  /// dimensions.
  [[nodiscard]] const Tensor& required(std::string_view name, size_t n_dimensions, std::string_view needs) const;

  /// Returns one value for each of `n` texts, from a tensor of n, of one, or of no dimension; none if there is no
  /// tensor. T is int64_t, uint64_t (any bits) or float. Throws core::Error unless all are in [low, high].
  template <typename T>
  [[nodiscard]] std::vector<T> of_each(std::string_view name, size_t n, T low, T high) const;
  [[nodiscard]] std::optional<int64_t> integer(std::string_view name, int64_t low, int64_t high) const;
  [[nodiscard]] bool flag(std::string_view name) const;

  /// The words of each text, from ids and the ends of words in them: (n, 2, L), or (2, L) for all texts; an end of -1
  /// is none. Empty if there is no such tensor.
  [[nodiscard]] std::vector<Words> words_of_each(std::string_view name, size_t n, int64_t vocab_size) const;

 private:
  [[nodiscard]] const Tensor* find(std::string_view name) const;
  [[nodiscard]] const Tensor* values_of_each(std::string_view name, size_t n,
                                             std::initializer_list<DataType> types) const;

  const TensorMap& tensors_;
};

/// Element i of a tensor of integers.
[[nodiscard]] int64_t integer_at(const Tensor& tensor, size_t i);

/// Throws core::Error if there is an output tensor that is not known, or that this engine does not give.
void check_output_names(const TensorMap& tensors);

}  // namespace folio::infer::faster_transformer
