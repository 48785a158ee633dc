// A vector whose copies share the same immutable elements, for data that all sequences of a request use. Copying it
// doesn't copy elements.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

namespace folio::core {

template <typename T>
class SharedVector {
 public:
  SharedVector() = default;
  SharedVector(std::vector<T> elements)  // NOLINT(google-explicit-constructor): implicit on purpose
      : elements_(elements.empty() ? nullptr : std::make_shared<const std::vector<T>>(std::move(elements))) {}
  SharedVector(std::initializer_list<T> elements) : SharedVector(std::vector<T>(elements)) {}

  [[nodiscard]] const T* begin() const { return elements_ == nullptr ? nullptr : elements_->data(); }
  [[nodiscard]] const T* end() const { return begin() + size(); }
  [[nodiscard]] size_t size() const { return elements_ == nullptr ? 0 : elements_->size(); }
  [[nodiscard]] bool empty() const { return size() == 0; }
  [[nodiscard]] const T& operator[](size_t i) const { return (*elements_)[i]; }
  /// Appends an element by copying all elements to a new vector; other copies are unchanged.
  void push_back(T element) {
    std::vector<T> all(begin(), end());
    all.push_back(std::move(element));
    *this = SharedVector(std::move(all));
  }
  void clear() { elements_.reset(); }

 private:
  std::shared_ptr<const std::vector<T>> elements_{};
};

}  // namespace folio::core
