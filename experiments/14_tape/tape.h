// Automatic differentiation in plain C++: a tape records each operation and its value, and backward() walks the tape in
// reverse and accumulates gradients. A tape is used for one loss; each training step records a new tape.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

namespace folio::tape {

using Values = std::vector<double>;

/// The shape of a stack of row-major matrices. A single matrix is a stack of 1, a scalar a 1 x 1 matrix.
struct Shape {
  int64_t stack = 1, rows = 1, columns = 1;
  [[nodiscard]] int64_t size() const { return stack * rows * columns; }
  bool operator==(const Shape&) const = default;
};

[[nodiscard]] std::string shown(const Shape& shape);  ///< formats a shape: "[16, 8, 65]"

/// An entry of the tape: an operation, its result, and its backward function.
struct Node {
  std::string operation;
  Shape shape;
  std::vector<Node*> inputs{};
  Values value{};
  Values gradient{};             ///< ∂loss/∂value, elementwise; 0 before backward()
  std::function<void()> rule{};  ///< adds this entry's contributions to its inputs' gradients; empty for leaves
};

class Tape;

/// A reference to a tape's entry, for use in operations. Valid while the tape exists.
struct Tensor {
  Tape* tape;
  Node* node;
  [[nodiscard]] const Shape& shape() const { return node->shape; }
  [[nodiscard]] Values& value() const { return node->value; }
  [[nodiscard]] Values& gradient() const { return node->gradient; }
};

class Tape {
 public:
  Tape() = default;
  Tape(const Tape&) = delete;  // the backward functions contain pointers to this tape's entries
  Tape& operator=(const Tape&) = delete;

  /// Records a parameter or input. Throws core::Error unless the number of values matches the shape.
  Tensor leaf(const std::string& name, Shape shape, Values values);

  /// Records an entry of zeros. The calling operation must fill its value and set its backward function, `rule`. Throws
  /// core::Error for an input of another tape.
  Tensor record(const std::string& operation, Shape shape, const std::vector<Tensor>& inputs);

  /// Computes ∂loss/∂value for all entries. Throws core::Error if the loss is not a scalar, or on a second call.
  void backward(const Tensor& loss);

  [[nodiscard]] const std::deque<Node>& nodes() const { return nodes_; }  ///< in the order of recording

 private:
  std::deque<Node> nodes_;  // a deque keeps addresses valid when entries are added
  bool walked_ = false;
};

}  // namespace folio::tape
