#include "infer/server/metrics.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace folio::infer::server {
namespace {

// Escapes a label's value, such as a model's name, for Prometheus' text format.
std::string label(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\' || c == '"') escaped += '\\';
    escaped += c == '\n' ? "\\n" : std::string(1, c);
  }
  return escaped;
}

// Returns the process's resident memory in bytes, from /proc; 0 if /proc is missing.
double resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  double size = 0.0;
  double resident = 0.0;
  statm >> size >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

double open_descriptors() {
  std::error_code error;
  std::filesystem::directory_iterator entries("/proc/self/fd", error);
  return error ? 0.0 : static_cast<double>(std::distance(begin(entries), end(entries)));
}

}  // namespace

std::string metric(const char* name, const char* type, const char* help, double value) {
  return fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n{0} {3}\n", name, help, type, value);
}

void Latencies::add(double seconds) {
  const auto bound = std::lower_bound(kBounds.begin(), kBounds.end(), seconds);
  ++counts_[static_cast<size_t>(bound - kBounds.begin())];
  sum_ += seconds;
  if (last_.size() < kLast) last_.emplace_back();
  last_[next_] = seconds;
  next_ = (next_ + 1) % kLast;
}

Ordered Latencies::quantiles_ms() const {
  if (last_.empty()) return nullptr;
  std::vector<double> sorted = last_;
  std::sort(sorted.begin(), sorted.end());
  const auto at = [&](double share) {
    return sorted[static_cast<size_t>(share * static_cast<double>(sorted.size() - 1))] * 1e3;
  };
  return {{"median", at(0.5)}, {"p99", at(0.99)}};
}

std::string Latencies::text(const std::string& name, const std::string& help) const {
  std::string text = fmt::format("# HELP {0} {1}\n# TYPE {0} histogram\n", name, help);
  uint64_t below = 0;
  for (size_t i = 0; i < kBounds.size(); ++i) {
    below += counts_[i];
    text += fmt::format("{}_bucket{{le=\"{}\"}} {}\n", name, kBounds[i], below);
  }
  below += counts_.back();
  return text + fmt::format("{0}_bucket{{le=\"+Inf\"}} {1}\n{0}_sum {2}\n{0}_count {1}\n", name, below, sum_);
}

std::string Metrics::text(const EngineStatistics& e) const {
  std::string text =
      "# HELP folio_http_requests_total HTTP responses, by path and status.\n"
      "# TYPE folio_http_requests_total counter\n";
  for (const auto& [key, n] : requests) {
    text += fmt::format("folio_http_requests_total{{path=\"{}\",status=\"{}\"}} {}\n", key.first, key.second, n);
  }
  const auto of_models = [&](const char* name, const char* help, uint64_t OfModel::*number) {
    text += fmt::format("# HELP {0} {1}\n# TYPE {0} counter\n", name, help);
    for (const auto& [model, n] : models) text += fmt::format("{}{{model=\"{}\"}} {}\n", name, label(model), n.*number);
  };
  of_models("folio_model_requests_total", "Finished completions, by requested model.", &OfModel::requests);
  of_models("folio_model_generation_tokens_total", "Generated tokens, by requested model.", &OfModel::tokens);
  const auto add = [&](const char* name, const char* type, const char* help, auto value) {
    text += metric(name, type, help, static_cast<double>(value));
  };
  add("folio_requests_running", "gauge", "Running sequences.", e.running);
  add("folio_requests_waiting", "gauge", "Waiting sequences.", e.waiting);
  add("folio_requests_paused", "gauge", "Sequences paused because their clients read too slowly.", e.paused);
  add("folio_prompt_tokens_total", "counter", "Prompt tokens.", prompt_tokens);
  add("folio_cached_tokens_total", "counter", "Prompt tokens found in the prefix cache.", cached_tokens);
  add("folio_generation_tokens_total", "counter", "Generated tokens.", e.tokens);
  add("folio_drafts_total", "counter", "Draft tokens that were verified.", drafts);
  add("folio_drafts_right_total", "counter", "Draft tokens that were accepted.", drafts_right);
  add("folio_preemptions_total", "counter", "Preemptions: sequences whose KV blocks were released, to be recomputed.",
      e.preemptions);
  add("folio_steps_total", "counter", "Steps (forward passes).", e.steps);
  add("folio_rows_total", "counter", "Rows of all steps.", e.rows);
  add("folio_step_seconds_total", "counter", "Time of all steps, in seconds.", e.step_seconds);
  add("folio_plan_seconds_total", "counter", "Time of scheduling within the steps, in seconds.", e.plan_seconds);
  add("folio_step_fixed_seconds", "gauge", "Fitted time of a step without prompts at 0 rows, in seconds.",
      e.fixed_seconds);
  add("folio_step_row_seconds", "gauge", "Fitted time of each row of a step without prompts, in seconds.",
      e.row_seconds);
  add("folio_draft_pass_seconds", "gauge", "Time to draft one token of each sequence, in seconds.", e.pass_seconds);
  add("folio_cache_blocks", "gauge", "KV cache blocks.", e.n_blocks);
  add("folio_cache_blocks_in_use", "gauge", "KV cache blocks in use by sequences.", e.blocks_in_use);
  add("process_resident_memory_bytes", "gauge", "Resident memory, in bytes.", resident_bytes());
  add("process_open_fds", "gauge", "Open file descriptors.", open_descriptors());
  text += first_token.text("folio_time_to_first_token_seconds",
                           "Time from a request's arrival to its first token, in seconds.");
  text +=
      between_tokens.text("folio_time_between_tokens_seconds", "Time between two tokens of a sequence, in seconds.");
  return text;
}

}  // namespace folio::infer::server
