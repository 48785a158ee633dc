#include "train/parallel/pipeline.h"

#include <fmt/ranges.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <map>
#include <utility>

#include "core/error.h"

namespace folio::train::parallel {
namespace {

using torch::Tensor;
using Kind = Action::Kind;

class PipelineRun {
 public:
  PipelineRun(int64_t n_chunks, const StageWork& work, Group& line, bool backward)
      : n_stages_(n_chunks * line.size()), work_(work), line_(line), backward_(backward) {}

  void run(const std::vector<Action>& actions) {
    Transfer next = begin_receive(actions, 0);
    for (size_t i = 0; i < actions.size(); ++i) {
      Transfer now = std::exchange(next, begin_receive(actions, i + 1));  // it comes while this action is done
      now.pending.wait();
      actions[i].kind == Kind::Forward ? forward(actions[i], now.t) : backward(actions[i], now.t);
    }
    for (Transfer& sent : gradients_sent_) sent.pending.wait();
    for (auto& [key, pass] : passes_) pass.sent.pending.wait();
  }

 private:
  struct Transfer {  // whose tensor must live until it has been sent or received
    Tensor t{};
    Pending pending{};
  };
  struct Pass {  // a forward pass that waits for its gradient
    Tensor x, y;
    Transfer sent;
  };

  [[nodiscard]] int64_t stage_of(const Action& action) const { return action.chunk * line_.size() + line_.index(); }
  [[nodiscard]] bool is_last(const Action& action) const { return stage_of(action) == n_stages_ - 1; }
  [[nodiscard]] int64_t before() const { return (line_.index() + line_.size() - 1) % line_.size(); }
  [[nodiscard]] int64_t after() const { return (line_.index() + 1) % line_.size(); }
  // For what is sent between a stage and the next.
  [[nodiscard]] int tag(int64_t stage, int64_t microbatch, Kind kind) const {
    return static_cast<int>((microbatch * n_stages_ + stage) * 2 + (kind == Kind::Forward ? 0 : 1));
  }

  Transfer begin_receive(const std::vector<Action>& actions, size_t i) {
    if (i == actions.size()) return {};
    const Action& action = actions[i];
    const bool forward = action.kind == Kind::Forward;
    if (forward ? stage_of(action) == 0 : is_last(action)) return {};
    const Tensor t = torch::empty(work_.shape, work_.type);
    const int64_t border = forward ? stage_of(action) - 1 : stage_of(action);
    return {.t = t,
            .pending = line_.receive(t, forward ? before() : after(), tag(border, action.microbatch, action.kind))};
  }

  void forward(const Action& action, Tensor x) {
    if (x.defined() && backward_) x.requires_grad_();
    Pass pass{.x = x, .y = work_.forward(action.chunk, action.microbatch, x), .sent = {}};
    if (!is_last(action)) {
      const Tensor y = pass.y.detach().contiguous();
      core::require(y.sizes() == work_.shape && y.scalar_type() == work_.type,
                    "stage {} of the pipeline makes [{}] of {}; [{}] of {} goes from stage to stage", stage_of(action),
                    fmt::join(y.sizes(), ", "), torch::toString(y.scalar_type()), fmt::join(work_.shape, ", "),
                    torch::toString(work_.type));
      pass.sent = {.t = y, .pending = line_.send(y, after(), tag(stage_of(action), action.microbatch, action.kind))};
    }
    if (!backward_) pass.x = pass.y = Tensor();
    passes_.insert_or_assign({action.chunk, action.microbatch}, std::move(pass));
  }

  void backward(const Action& action, const Tensor& dy) {
    const auto found = passes_.find({action.chunk, action.microbatch});
    core::require(found != passes_.end(), "microbatch {} goes back through chunk {} before it came", action.microbatch,
                  action.chunk);
    Pass pass = std::move(found->second);
    passes_.erase(found);
    pass.sent.pending.wait();  // its gradient is here, so it was taken
    torch::autograd::backward({pass.y}, {dy});
    if (stage_of(action) == 0) return;
    const Tensor& grad = pass.x.grad();
    const Tensor dx = grad.defined() ? grad.contiguous() : torch::zeros_like(pass.x);
    gradients_sent_.push_back(
        {.t = dx, .pending = line_.send(dx, before(), tag(stage_of(action) - 1, action.microbatch, action.kind))});
  }

  int64_t n_stages_;
  const StageWork& work_;
  Group& line_;
  bool backward_;
  std::map<std::pair<int64_t, int64_t>, Pass> passes_;  // by chunk and microbatch
  std::vector<Transfer> gradients_sent_;
};

}  // namespace

void run_pipeline(const std::vector<Action>& actions, int64_t n_chunks, const StageWork& work, Group& line) {
  core::require(line.size() > 1, "a pipeline of one rank: its stages have nobody to send to");
  bool backward = false;
  for (const Action& action : actions) {
    core::require(action.kind == Kind::Forward || action.kind == Kind::Backward,
                  "a pipeline's backward pass is done as a whole; halves of it are for simulations");
    core::require(0 <= action.chunk && action.chunk < n_chunks, "a schedule for chunk {} of {}", action.chunk,
                  n_chunks);
    backward = backward || action.kind == Kind::Backward;
  }
  const torch::AutoGradMode grad_mode(backward);
  PipelineRun(n_chunks, work, line, backward).run(actions);
}

}  // namespace folio::train::parallel
