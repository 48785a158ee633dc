#include "train/profile/profile.h"

#include <ATen/record_function.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "core/seconds_since.h"
#include "train/report/matrix_peak.h"

namespace folio::train {
namespace {

using Clock = std::chrono::steady_clock;

// Its operations count as its own: Muon's products are no products of the model.
constexpr std::string_view kUpdate = "folio::update";

// While one exists, the seconds that each operation of this thread takes, without those of operations within it.
class OwnTimes {
 public:
  OwnTimes() : handle_(at::addThreadLocalCallback(at::RecordFunctionCallback(&begin, &end))) { current() = this; }
  ~OwnTimes() {
    at::removeCallback(handle_);
    current() = nullptr;
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
  // The callbacks are plain functions.
  static OwnTimes*& current() {
    static thread_local OwnTimes* times = nullptr;
    return times;
  }
  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
    // What is under way to other ranks ends at any time, and Gloo's threads call this, too.
    if (current() == nullptr || function.isAsync()) return nullptr;
    auto operation = std::make_unique<Operation>();
    operation->outer = std::exchange(current()->innermost_, operation.get());
    operation->of_update = function.name() == kUpdate || (operation->outer != nullptr && operation->outer->of_update);
    return operation;
  }
  static void end(const at::RecordFunction& function, at::ObserverContext* context) {
    if (context == nullptr) return;
    const auto* operation = static_cast<const Operation*>(context);
    const double seconds = core::seconds_since(operation->start);
    const std::string name(operation->of_update ? kUpdate : std::string_view(function.name()));
    current()->seconds_[name] += seconds - operation->inner;
    if (operation->outer != nullptr) operation->outer->inner += seconds;
    current()->innermost_ = operation->outer;
  }

  std::map<std::string, double> seconds_;
  Operation* innermost_ = nullptr;
  at::CallbackHandle handle_;
};

// The classes of operations by how their names begin.
struct Class {
  const char* name;
  std::vector<std::string_view> prefixes;
};
const std::vector<Class>& classes() {
  static const std::vector<Class> kClasses{
      {"matrix products", {"aten::mm", "aten::addmm", "aten::bmm", "folio::experts"}},
      {"attention", {"folio::attend", "aten::_scaled_dot_product"}},
      {"norms", {"folio::norm", "aten::rsqrt", "aten::mean", "aten::square", "aten::pow"}},
      {"RoPE", {"folio::rotate", "aten::view_as_complex", "aten::view_as_real"}},
      {"SwiGLU", {"folio::swiglu", "aten::silu"}},
      {"residuals, dropout", {"folio::add", "folio::drop", "aten::bernoulli", "aten::native_dropout"}},
      {"embedding", {"aten::embedding", "aten::index_select"}},
      {"loss", {"folio::cross_entropy", "aten::_log_softmax", "aten::nll_loss"}},
      {"frozen weights, expanded", {"folio::expand"}},
      {"copies, conversions", {"aten::copy_", "aten::_to_copy", "aten::clone"}},
      {"waiting for ranks", {"folio::wait"}},
      {"clipping, optimizer", {kUpdate}},
      {"other operations", {"aten::"}},
  };
  return kClasses;
}

// Of a frozen model without the gradients of its weights, and without the adapters' small products.
double operations_of_products(const core::ModelConfig& c, int64_t tokens, bool frozen) {
  int64_t weights = c.vocab_size * c.dim;  // of the output
  for (const core::TensorSpec& spec : core::tensor_manifest(c)) {
    if (spec.layer >= 0 && spec.is_matrix()) weights += active_elements(c, spec);
  }
  return (frozen ? 4.0 : 6.0) * static_cast<double>(tokens) * static_cast<double>(weights);
}

// Two products in the forward pass and five in the backward pass, of the half that the mask leaves.
double operations_of_attention(const core::ModelConfig& c, int64_t tokens, int64_t window) {
  return 7.0 * static_cast<double>(c.n_layers * c.query_dim() * tokens) * static_cast<double>(window + 1);
}

}  // namespace

StepProfile profile_steps(Trainer& trainer, int64_t steps) {
  constexpr int kWarmUp = 3;
  for (int i = 0; i < kWarmUp; ++i) trainer.step();
  std::vector<double> times;
  for (int64_t i = 0; i < steps; ++i) {
    const auto start = Clock::now();
    trainer.step();
    times.push_back(core::seconds_since(start));
  }
  std::nth_element(times.begin(), times.begin() + steps / 2, times.end());
  StepProfile profile{.items = {}, .step_seconds = times[static_cast<size_t>(steps / 2)]};
  for (const Class& c : classes()) profile.items.push_back({.name = c.name});

  const OwnTimes own;
  const auto start = Clock::now();
  for (int64_t i = 0; i < steps; ++i) trainer.step();
  double rest = core::seconds_since(start);
  for (const auto& [name, seconds] : own.seconds()) {
    for (size_t i = 0; i < classes().size(); ++i) {
      const auto& prefixes = classes()[i].prefixes;
      if (std::none_of(prefixes.begin(), prefixes.end(), [&](auto prefix) { return name.starts_with(prefix); }))
        continue;
      profile.items[i].seconds += seconds / static_cast<double>(steps);
      rest -= seconds;
      break;
    }
  }
  profile.items.push_back({.name = "autograd, batches", .seconds = rest / static_cast<double>(steps)});
  const TrainConfig& c = trainer.config();
  const auto n_ranks = static_cast<double>(trainer.world().mesh().shape().n_ranks());
  profile.items[0].operations = operations_of_products(c.model, trainer.tokens_per_step(), c.lora_rank > 0) / n_ranks;
  profile.items[1].operations = operations_of_attention(c.model, trainer.tokens_per_step(), c.window) / n_ranks;
  return profile;
}

std::string to_table(const StepProfile& profile, double peak) {
  std::string table = fmt::format("{:<26}{:>9}{:>9}{:>16}\n", "part", "ms", "share", "of the peak");
  double all = 0.0, operations = 0.0;
  for (const auto& part : profile.items) all += part.seconds;
  const auto line = [&](const std::string& name, double seconds, double count) {
    const std::string share = count == 0.0 ? "" : fmt::format("{:.0f} %", 100 * count / seconds / peak);
    table += fmt::format("{:<26}{:>9.2f}{:>7.1f} %{:>16}\n", name, 1e3 * seconds, 100 * seconds / all, share);
  };
  for (const auto& part : profile.items) {
    line(part.name, part.seconds, part.operations);
    operations += part.operations;
  }
  line("a step", all, operations);
  table += fmt::format("a step that is not watched: {:.2f} ms (median); peak: {:.0f} GFLOP/s\n",
                       1e3 * profile.step_seconds, peak / 1e9);
  return table;
}

}  // namespace folio::train
