#include "train/parallel/pipeline.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/utils.h>

#include <map>
#include <utility>

namespace folio::train::parallel {
namespace {

using torch::Tensor;
using Kind = Action::Kind;

class PipelineRun {
 public:
  PipelineRun(int64_t n_chunks, const StageWork& work, Group& line)
      : n_stages_(n_chunks * line.size()), work_(work), line_(line) {}

  void run(const std::vector<Action>& actions) {
    Receipt next = begin_receive(actions, 0);
    for (size_t i = 0; i < actions.size(); ++i) {
      Receipt now = std::exchange(next, begin_receive(actions, i + 1));  // the next input arrives during this action
      now.pending.wait();
      actions[i].kind == Kind::Forward ? forward(actions[i], now.t) : backward(actions[i], now.t);
    }
    for (Pending& sent : gradients_sent_) sent.wait();
    for (auto& [key, pass] : passes_) pass.sent.wait();
  }

 private:
  struct Receipt {
    Tensor t{};
    Pending pending{};
  };
  struct ForwardPass {  // a forward pass whose backward pass is pending
    Tensor x, y;
    Pending sent;
  };

  [[nodiscard]] int64_t stage_of(const Action& action) const { return action.chunk * line_.size() + line_.index(); }
  [[nodiscard]] bool is_last(const Action& action) const { return stage_of(action) == n_stages_ - 1; }
  // Returns the tag of a message between `stage` and the next stage.
  [[nodiscard]] int tag(int64_t stage, int64_t microbatch, Kind kind) const {
    return static_cast<int>((microbatch * n_stages_ + stage) * 2 + (kind == Kind::Forward ? 0 : 1));
  }

  Receipt begin_receive(const std::vector<Action>& actions, size_t i) {
    if (i == actions.size()) return {};
    const Action& action = actions[i];
    const bool forward = action.kind == Kind::Forward;
    if (forward ? stage_of(action) == 0 : is_last(action)) return {};
    const Tensor t = torch::empty(work_.shape, work_.type);
    const int64_t border = forward ? stage_of(action) - 1 : stage_of(action);
    return {.t = t,
            .pending = line_.receive(t, forward ? line_.previous() : line_.next(),
                                     tag(border, action.microbatch, action.kind))};
  }

  void forward(const Action& action, Tensor x) {
    const bool goes_back = torch::GradMode::is_enabled();
    if (x.defined() && goes_back) x.requires_grad_();
    ForwardPass pass{.x = x, .y = work_.forward(action.chunk, action.microbatch, x), .sent = {}};
    if (!is_last(action)) {
      const Tensor y = pass.y.detach().contiguous();
      pass.sent = line_.send(y, line_.next(), tag(stage_of(action), action.microbatch, action.kind));
    }
    if (!goes_back) pass.x = pass.y = Tensor();
    passes_[{action.chunk, action.microbatch}] = std::move(pass);
  }

  void backward(const Action& action, const Tensor& dy) {
    ForwardPass pass = std::exchange(passes_[{action.chunk, action.microbatch}], {});
    pass.sent.wait();  // does not block: the gradient's arrival shows that y was received
    torch::autograd::backward({pass.y}, {dy});
    if (stage_of(action) == 0) return;
    const Tensor& grad = pass.x.grad();
    const Tensor dx = grad.defined() ? grad.contiguous() : torch::zeros_like(pass.x);
    gradients_sent_.push_back(
        line_.send(dx, line_.previous(), tag(stage_of(action) - 1, action.microbatch, action.kind)));
  }

  int64_t n_stages_;
  const StageWork& work_;
  Group& line_;
  std::map<std::pair<int64_t, int64_t>, ForwardPass> passes_;  // key: (chunk, microbatch)
  std::vector<Pending> gradients_sent_;
};

}  // namespace

void run_pipeline(std::vector<Action> actions, int64_t n_chunks, const StageWork& work, Group& line) {
  if (!torch::GradMode::is_enabled()) {
    std::erase_if(actions, [](const Action& action) { return action.kind == Kind::Backward; });
  }
  PipelineRun(n_chunks, work, line).run(actions);
}

}  // namespace folio::train::parallel
