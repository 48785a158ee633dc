#include "experiments/14_tape/tape.h"

#include <fmt/format.h>

#include <utility>

#include "core/error.h"

namespace folio::tape {

std::string shown(const Shape& s) { return fmt::format("[{}, {}, {}]", s.stack, s.rows, s.columns); }

Tensor Tape::leaf(const std::string& name, Shape shape, Values values) {
  core::require(static_cast<int64_t>(values.size()) == shape.size(), "leaf {}: {} values for the shape {}", name,
                values.size(), shown(shape));
  const Tensor y = record(name, shape, {});
  y.value() = std::move(values);
  return y;
}

Tensor Tape::record(const std::string& operation, Shape shape, const std::vector<Tensor>& inputs) {
  Node& node = nodes_.emplace_back(Node{.operation = operation, .shape = shape});
  for (const Tensor& input : inputs) {
    core::require(input.tape == this, "{}: an input is on another tape", operation);
    node.inputs.push_back(input.node);
  }
  node.value = node.gradient = Values(shape.size(), 0.0);
  return {this, &node};
}

void Tape::backward(const Tensor& loss) {
  core::require(loss.shape().size() == 1, "backward: the loss must be one number, but is {}", shown(loss.shape()));
  core::require(!walked_, "backward: this tape has its gradients already; record the next loss on a new tape");
  walked_ = true;
  loss.gradient()[0] = 1.0;  // ∂loss/∂loss
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
    if (node->rule) node->rule();
  }
}

}  // namespace folio::tape
