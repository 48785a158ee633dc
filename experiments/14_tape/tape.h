// Automatic differentiation in plain C++: a tape records each operation with its value, and backward() walks the tape
// in reverse and adds up gradients. A tape serves one loss; the next step records a new one.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

namespace folio::tape {

using Values = std::vector<double>;

/// A stack of matrices, row by row. A single matrix is a stack of 1, and a number is a matrix of 1 row and 1 column.
struct Shape {
  int64_t stack = 1, rows = 1, columns = 1;
  [[nodiscard]] int64_t size() const { return stack * rows * columns; }
  bool operator==(const Shape&) const = default;
};

[[nodiscard]] std::string shown(const Shape& shape);  ///< "[16, 8, 65]"

/// An entry of the tape: an operation, its result, and its rule for the way back.
struct Node {
  std::string operation;
  Shape shape;
  std::vector<Node*> inputs{};
  Values value{};
  Values gradient{};             ///< ∂loss/∂value, number by number; 0 before backward()
  std::function<void()> rule{};  ///< from this gradient, adds to those of the inputs; a leaf has none
};

class Tape;

/// An entry of a tape, to compute with. It is valid as long as the tape is.
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
  Tape(const Tape&) = delete;  // rules point to the entries of this one
  Tape& operator=(const Tape&) = delete;

  /// A parameter or an input. Throws core::Error unless there are as many values as the shape has.
  Tensor leaf(const std::string& name, Shape shape, Values values);

  /// A new entry with values of 0, for an operation to fill. Throws core::Error for an input of another tape.
  Tensor record(const std::string& operation, Shape shape, const std::vector<Tensor>& inputs);

  /// Sets the gradients of all entries. Throws core::Error unless the loss is one number, and at a second call.
  void backward(const Tensor& loss);

  [[nodiscard]] const std::deque<Node>& nodes() const { return nodes_; }  ///< in the order of recording

 private:
  std::deque<Node> nodes_;  // entries stay where they are when more are added
  bool walked_ = false;
};

}  // namespace folio::tape
