// A text's tokens, in memory or in a mapped file, stored as two or four bytes each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace folio::data {

/// A read-only view of tokens that are stored elsewhere.
class TokenView {
 public:
  TokenView() = default;
  TokenView(std::span<const int32_t> tokens) : wide_(tokens.data()), size_(tokens.size()) {}
  TokenView(const std::vector<int32_t>& tokens) : TokenView(std::span(tokens)) {}
  explicit TokenView(std::span<const uint16_t> tokens) : narrow_(tokens.data()), size_(tokens.size()) {}

  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] int32_t operator[](size_t i) const { return narrow_ != nullptr ? narrow_[i] : wide_[i]; }
  [[nodiscard]] TokenView subspan(size_t first, size_t n) const {
    TokenView part = *this;
    if (narrow_ != nullptr) part.narrow_ += first;
    if (wide_ != nullptr) part.wide_ += first;
    part.size_ = n;
    return part;
  }
  [[nodiscard]] TokenView subspan(size_t first) const { return subspan(first, size_ - first); }
  [[nodiscard]] TokenView first(size_t n) const { return subspan(0, n); }

  void append_to(std::vector<int32_t>& tokens) const {
    if (narrow_ != nullptr) tokens.insert(tokens.end(), narrow_, narrow_ + size_);
    if (wide_ != nullptr) tokens.insert(tokens.end(), wide_, wide_ + size_);
  }
  [[nodiscard]] std::vector<int32_t> to_vector() const {
    std::vector<int32_t> tokens;
    append_to(tokens);
    return tokens;
  }

 private:
  const int32_t* wide_ = nullptr;
  const uint16_t* narrow_ = nullptr;
  size_t size_ = 0;
};

}  // namespace folio::data
