#include "infer/server/metrics.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>

namespace folio::infer::server {
namespace {

std::string metric(const char* name, const char* type, const char* help, double value) {
  return fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n{0} {3}\n", name, help, type, value);
}

// A label's value: what a file or a flag calls a model.
std::string label(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\' || c == '"') escaped += '\\';
    escaped += c == '\n' ? "\\n" : std::string(1, c);
  }
  return escaped;
}

// From /proc, where there is one.
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

// To count thousands of descriptors takes a millisecond: twenty times a second is enough.
double recent_descriptors() {
  using Clock = std::chrono::steady_clock;
  static thread_local Clock::time_point looked;
  static thread_local double n = 0.0;
  if (Clock::now() > looked + std::chrono::milliseconds(50)) {
    n = open_descriptors();
    looked = Clock::now();
  }
  return n;
}

}  // namespace

void Latencies::add(double seconds) {
  const auto bound = std::lower_bound(kBounds.begin(), kBounds.end(), seconds);
  ++counts_[static_cast<size_t>(bound - kBounds.begin())];
  sum_ += seconds;
  if (last_.size() < kLast) {
    last_.push_back(seconds);
  } else {
    last_[next_] = seconds;
    next_ = (next_ + 1) % kLast;
  }
}

std::optional<Latencies::Quantiles> Latencies::quantiles() const {
  if (last_.empty()) return std::nullopt;
  std::vector<double> sorted = last_;
  std::sort(sorted.begin(), sorted.end());
  const auto at = [&](double share) {
    return sorted[static_cast<size_t>(share * static_cast<double>(sorted.size() - 1))];
  };
  return Quantiles{.median = at(0.5), .p99 = at(0.99)};
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
      "# HELP folio_http_requests_total Answers, by path and status.\n"
      "# TYPE folio_http_requests_total counter\n";
  for (const auto& [key, n] : requests) {
    text += fmt::format("folio_http_requests_total{{path=\"{}\",status=\"{}\"}} {}\n", key.first, key.second, n);
  }
  const auto of_models = [&](const char* name, const char* help, uint64_t OfModel::*number) {
    text += fmt::format("# HELP {0} {1}\n# TYPE {0} counter\n", name, help);
    for (const auto& [model, n] : models) text += fmt::format("{}{{model=\"{}\"}} {}\n", name, label(model), n.*number);
  };
  of_models("folio_model_requests_total", "Completions that ended, by the model asked for.", &OfModel::requests);
  of_models("folio_model_generation_tokens_total", "Tokens that they generated.", &OfModel::tokens);
  const auto count = [](uint64_t n) { return static_cast<double>(n); };
  text += metric("folio_requests_running", "gauge", "Sequences that run.", count(e.running));
  text += metric("folio_requests_waiting", "gauge", "Sequences that wait.", count(e.waiting));
  text += metric("folio_requests_paused", "gauge", "Sequences that are paused, since their clients read too slowly.",
                 count(e.paused));
  text += metric("folio_prompt_tokens_total", "counter", "Tokens of prompts.", count(prompt_tokens));
  text +=
      metric("folio_cached_tokens_total", "counter", "Tokens of prompts that the cache knew.", count(e.cached_tokens));
  text += metric("folio_generation_tokens_total", "counter", "Tokens that were generated.", count(e.tokens));
  text += metric("folio_drafts_total", "counter", "Tokens that were guessed and tried.", count(drafts));
  text += metric("folio_drafts_right_total", "counter", "Of them, those that were right.", count(drafts_right));
  text += metric("folio_preemptions_total", "counter",
                 "Times that a sequence had to give its blocks back, to be computed again.", count(e.preemptions));
  text += metric("folio_steps_total", "counter", "Forward passes.", count(e.steps));
  text += metric("folio_rows_total", "counter", "Rows of forward passes.", count(e.rows));
  text += metric("folio_step_seconds_total", "counter", "Time of all steps.", e.step_seconds);
  text += metric("folio_plan_seconds_total", "counter", "Of these, to plan them.", e.plan_seconds);
  text += metric("folio_cache_blocks", "gauge", "Blocks of the KV cache.", static_cast<double>(e.n_blocks));
  text +=
      metric("folio_cache_blocks_in_use", "gauge", "Blocks that sequences hold.", static_cast<double>(e.blocks_in_use));
  text += metric("process_resident_memory_bytes", "gauge", "Resident memory.", resident_bytes());
  text += metric("process_open_fds", "gauge", "Open file descriptors.", recent_descriptors());
  text += first_token.text("folio_time_to_first_token_seconds", "From a request's arrival to its first token.");
  text += between_tokens.text("folio_time_between_tokens_seconds", "Between two tokens of one sequence.");
  return text;
}

}  // namespace folio::infer::server
