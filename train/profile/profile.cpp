#include "train/profile/profile.h"

#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "core/seconds_since.h"
#include "train/report/matrix_peak.h"
#include "train/step/step_threads.h"

namespace folio::train {
namespace {

using Clock = std::chrono::steady_clock;

// Operations within the optimizer update are attributed to it, so that Muon's products do not count as the model's.
constexpr std::string_view kUpdate = "folio::update";

// Records the self times of this thread's operations, in seconds and without nested operations, while it exists.
class OwnTimes {
 public:
  OwnTimes() : handle_(at::addThreadLocalCallback(at::RecordFunctionCallback(&begin, &end))) { current_ = this; }
  ~OwnTimes() {
    at::removeCallback(handle_);
    current_ = nullptr;
  }
  OwnTimes(const OwnTimes&) = delete;
  OwnTimes& operator=(const OwnTimes&) = delete;

  [[nodiscard]] const std::map<std::string, double>& seconds() const { return seconds_; }

 private:
  struct Operation : at::ObserverContext {
    Clock::time_point start = Clock::now();
    double inner = 0.0;
    bool of_update = false;
    Operation* outer = nullptr;
  };
  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
    // Skip asynchronous transfers to other ranks, and calls by Gloo's threads.
    if (current_ == nullptr || function.isAsync()) return nullptr;
    auto operation = std::make_unique<Operation>();
    operation->outer = std::exchange(current_->innermost_, operation.get());
    operation->of_update = function.name() == kUpdate || (operation->outer != nullptr && operation->outer->of_update);
    return operation;
  }
  static void end(const at::RecordFunction& function, at::ObserverContext* context) {
    if (context == nullptr) return;
    const auto* operation = static_cast<const Operation*>(context);
    const double seconds = core::seconds_since(operation->start);
    const std::string name(operation->of_update ? kUpdate : std::string_view(function.name()));
    current_->seconds_[name] += seconds - operation->inner;
    if (operation->outer != nullptr) operation->outer->inner += seconds;
    current_->innermost_ = operation->outer;
  }

  inline static thread_local OwnTimes* current_ = nullptr;  // static, as the callbacks are plain functions

  std::map<std::string, double> seconds_;
  Operation* innermost_ = nullptr;
  at::CallbackHandle handle_;
};

// A class of operations, selected by name prefixes. An operation belongs to the first class in classes() that matches.
struct Class {
  const char* name;
  std::vector<std::string_view> prefixes;
  double seconds = 0.0;     ///< per step
  double operations = 0.0;  ///< FLOPs per step; 0: not counted
};
std::vector<Class> classes() {
  return {
      {"matrix products", {"aten::mm", "aten::addmm", "aten::bmm", "folio::experts"}},
      {"attention", {"folio::attend", "aten::_scaled_dot_product_flash"}},
      {"norms", {"folio::norm", "aten::rsqrt", "aten::mean", "aten::square", "aten::pow"}},
      {"RoPE", {"folio::rotate", "aten::view_as_complex", "aten::view_as_real"}},
      {"SwiGLU", {"folio::swiglu", "aten::silu"}},
      {"residuals, dropout", {"folio::add", "folio::drop", "aten::bernoulli", "aten::native_dropout"}},
      {"embedding", {"aten::embedding", "aten::index_select"}},
      {"loss", {"folio::cross_entropy", "aten::_log_softmax", "aten::nll_loss"}},
      {"dequantization", {"folio::expand"}},
      {"copies, conversions", {"aten::copy_", "aten::_to_copy", "aten::clone"}},
      {"waiting for ranks", {"folio::wait"}},
      {"clipping, optimizer", {kUpdate}},
      {"other operations", {"aten::"}},
  };
}

// Returns the FLOPs of a step's matrix products, except those of adapters. A frozen model has no weight gradients.
double operations_of_products(const core::ModelConfig& c, int64_t tokens, bool frozen) {
  int64_t weights = (1 + c.n_tokens_ahead) * c.vocab_size * c.dim;  // output head, also used by the MTP module
  for (const core::TensorSpec& spec : core::tensor_manifest(c)) {
    if (spec.layer >= 0 && spec.is_matrix()) weights += active_elements(c, spec);
  }
  return (frozen ? 4.0 : 6.0) * static_cast<double>(tokens) * static_cast<double>(weights);
}

}  // namespace

// Two matrix products in the forward pass and five in the backward pass: four have the width of the queries, three that
// of the values.
double attention_operations(const core::ModelConfig& c, int64_t window) {
  // Pairs of a query and a key that it attends to, counted twice, as a product's element has two FLOPs.
  int64_t pairs = 0;
  for (int64_t layer = 0; layer < c.n_layers + c.n_tokens_ahead; ++layer) {
    const int64_t seen = c.has_window(layer) ? std::min(c.sliding_window, window) : window;
    pairs += seen * (2 * window - seen + 1);
  }
  return static_cast<double>((4 * c.query_dim() + 3 * c.heads_dim()) * pairs) / static_cast<double>(window);
}

std::string profile_steps(Trainer& trainer, int64_t steps) {
  constexpr int kWarmUp = 3;
  const TrainConfig& c = trainer.config();
  const double peak = matrix_peak(c.dtype, torch::kCPU).operations_per_s;
  // Select the number of threads as in a run (run.cpp), after measuring the load of other programs.
  StepThreads threads(at::get_num_threads(), [&](int n) { return trainer.repeats_with(n); });
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  threads.watch();
  for (int i = 0; i < kWarmUp; ++i) trainer.step();
  std::vector<double> times;
  for (int64_t i = 0; i < steps; ++i) {
    const auto start = Clock::now();
    trainer.step();
    times.push_back(core::seconds_since(start));
    threads.watch();
  }
  std::nth_element(times.begin(), times.begin() + steps / 2, times.end());

  std::vector<Class> parts = classes();
  const OwnTimes own;
  const auto start = Clock::now();
  for (int64_t i = 0; i < steps; ++i) trainer.step();
  const double all = core::seconds_since(start) / static_cast<double>(steps);
  double rest = all;
  for (const auto& [name, seconds] : own.seconds()) {
    const auto part = std::ranges::find_if(parts, [&, &name = name](const Class& one) {
      return std::ranges::any_of(one.prefixes, [&](auto prefix) { return name.starts_with(prefix); });
    });
    if (part == parts.end()) continue;
    part->seconds += seconds / static_cast<double>(steps);
    rest -= seconds / static_cast<double>(steps);
  }
  const auto n_ranks = static_cast<double>(trainer.world().mesh().shape().n_ranks());
  parts[0].operations = operations_of_products(c.model, trainer.tokens_per_step(), c.lora_rank > 0) / n_ranks;
  parts[1].operations =
      attention_operations(c.model, c.window) * static_cast<double>(trainer.tokens_per_step()) / n_ranks;
  // Without a kernel for attention, matrix products compute it.
  if (parts[1].seconds == 0.0) parts[0].operations += std::exchange(parts[1].operations, 0.0);
  parts.push_back({"autograd, batches", {}, rest});
  parts.push_back({"a step", {}, all, parts[0].operations + parts[1].operations});

  std::string table = fmt::format("{:<26}{:>9}{:>9}{:>16}\n", "part", "ms", "share", "of the peak");
  for (const Class& part : parts) {
    const double share = part.operations / part.seconds / peak;
    table += fmt::format("{:<26}{:>9.2f}{:>7.1f} %{:>16}\n", part.name, 1e3 * part.seconds, 100 * part.seconds / all,
                         part.operations == 0.0 ? "" : fmt::format("{:.0f} %", 100 * share));
  }
  table += fmt::format("a step without the profiler: {:.2f} ms (median); peak: {:.0f} GFLOP/s\n",
                       1e3 * times[static_cast<size_t>(steps / 2)], peak / 1e9);
  return table;
}

}  // namespace folio::train
