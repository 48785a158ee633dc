#include "apps/bench_step.h"

#include <algorithm>
#include <string>

#include "core/error.h"
#include "core/manifest.h"
#include "core/random.h"

namespace folio::apps {
namespace {

// Returns the bytes of all expert weights as stored in the file. In memory, they are a few percent larger.
double expert_bytes(const core::StoredModel& model) {
  const auto manifest = core::tensor_manifest(model.config);
  double bytes = 0.0;
  for (size_t i = 0; i < manifest.size(); ++i) {
    if (manifest[i].is_stack() && manifest[i].of_experts()) bytes += static_cast<double>(model.tensors[i].bytes.size());
  }
  return bytes;
}

}  // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::vector<infer::Request> random_requests(const core::ModelConfig& config, const infer::SamplerOptions& sampler,
                                            int64_t batch, int repetition, int64_t prompt_tokens) {
  const auto vocab = static_cast<uint64_t>(config.vocab_size);
  std::vector<infer::Request> requests(static_cast<size_t>(batch));
  for (size_t b = 0; b < requests.size(); ++b) {
    for (int64_t p = 0; p < prompt_tokens; ++p) {
      const auto seed = static_cast<uint64_t>(batch) << 32U | static_cast<uint64_t>(repetition) << 16U | b;
      requests[b].prompt.push_back(static_cast<int32_t>(core::random_below(seed, static_cast<uint64_t>(p), vocab)));
    }
    requests[b].options.sampler = sampler;
  }
  return requests;
}

void require_rows(const infer::Runner& runner, int64_t batch) {
  const size_t most = runner.max_rows() * runner.steps_in_flight();
  if (static_cast<size_t>(batch) <= most) return;
  throw core::UsageError(
      fmt::format("--batch {} exceeds the {} sequences that decode together; lower it", batch, most));
}

StepReads step_reads(infer::Runner& runner, int64_t batch) {
  constexpr int64_t kSteps = 8;
  const core::ModelConfig& config = runner.config();
  const auto all = static_cast<double>(runner.load_report().weight_bytes);
  if (config.n_experts == 0 || !runner.writable()) return {.bytes = all, .experts = 0.0};
  std::vector<infer::Row> rows(std::min(static_cast<size_t>(batch), runner.max_rows()));
  for (infer::Row& row : rows) row.sequence = runner.cache().add_sequence();
  size_t n_taken = 0, n_layers = 0;
  const auto count = [&](const std::string& name, std::span<const float> routes, size_t n_rows) {
    if (!name.ends_with(".routes")) return false;
    const size_t n_experts = routes.size() / n_rows;
    for (size_t e = 0; e < n_experts; ++e) {
      bool taken = false;
      for (size_t row = 0; row < n_rows; ++row) taken = taken || routes[row * n_experts + e] != 0.0F;
      n_taken += taken ? 1 : 0;
    }
    ++n_layers;
    return false;
  };
  for (int64_t step = 0; step < std::min(kSteps, config.context_length); ++step) {
    for (size_t i = 0; i < rows.size(); ++i) {
      rows[i].token = static_cast<int32_t>(
          core::random_below(i, static_cast<uint64_t>(step), static_cast<uint64_t>(config.vocab_size)));
      rows[i].position = step;
    }
    static_cast<void>(runner.forward(rows, count));
  }
  for (const infer::Row& row : rows) runner.cache().release(row.sequence);
  const double experts = static_cast<double>(n_taken) / static_cast<double>(n_layers);
  const double left_out = 1.0 - experts / static_cast<double>(config.n_experts);
  return {.bytes = all - left_out * expert_bytes(runner.model()), .experts = experts};
}

}  // namespace folio::apps
