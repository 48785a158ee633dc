#include "train/report/run_log.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file_status.h"
#include "train/report/line_chart.h"

namespace folio::train {
namespace {

namespace fs = std::filesystem;

// Calls visit(key in log.jsonl, tag in TensorBoard, value) for each metric.
template <typename Entry, typename Visit>
void visit_metrics(Entry& e, Visit visit) {
  visit("loss", "loss/train", e.loss);
  visit("mtp_loss", "loss/mtp", e.mtp_loss);
  visit("lr", "lr", e.lr);
  visit("grad_norm", "grad_norm", e.grad_norm);
  visit("tokens_per_s", "tokens_per_s", e.tokens_per_s);
  visit("peak_share", "peak_share", e.peak_share);
  visit("train_loss", "loss/train_evaluation", e.train_loss);
  visit("val_loss", "loss/validation", e.val_loss);
  visit("expert_load", "expert_load", e.expert_load);
}

std::string to_line(const LogEntry& e) {
  nlohmann::ordered_json json = {{"step", e.step}, {"tokens", e.tokens}};
  visit_metrics(e, [&](const char* key, const char*, std::optional<double> value) {
    if (value) json[key] = *value;
  });
  if (e.sample) json["sample"] = *e.sample;
  // Replace invalid UTF-8, since a sample may end within a character.
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::vector<LogEntry> entries_up_to(const fs::path& path, int64_t last_step) {
  if (!core::path_exists(path)) return {};
  core::require(core::is_plain_file(path), "{} is not a regular file; remove it or use another --out", path.string());
  std::vector<LogEntry> entries = read_log(path);
  std::erase_if(entries, [&](const LogEntry& entry) { return entry.step > last_step; });
  return entries;
}

fs::path rewritten(const fs::path& path, const std::vector<LogEntry>& entries) {
  std::string lines;
  for (const LogEntry& entry : entries) lines += to_line(entry);
  core::write_file_atomically(path, lines);
  return path;
}

}  // namespace

std::vector<LogEntry> read_log(const fs::path& path) {
  std::vector<LogEntry> entries;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) continue;
    const auto number = [&](const char* key) {
      return json.contains(key) && json[key].is_number() ? std::optional(json[key].get<double>()) : std::nullopt;
    };
    if (!number("step") || !number("loss")) continue;
    LogEntry& entry = entries.emplace_back();
    entry.step = static_cast<int64_t>(*number("step"));
    entry.tokens = static_cast<int64_t>(number("tokens").value_or(0));
    visit_metrics(entry, [&](const char* key, const char*, auto& value) {
      if (number(key)) value = *number(key);
    });
    if (json.contains("sample") && json["sample"].is_string()) entry.sample = json["sample"];
  }
  return entries;
}

RunLog::RunLog(const fs::path& run, int64_t keep_up_to)
    : run_(run),
      entries_(entries_up_to(run / "log.jsonl", keep_up_to)),
      file_(rewritten(run / "log.jsonl", entries_), core::OutputFile::Mode::Append),
      events_(run, keep_up_to) {}

void RunLog::append(const LogEntry& entry) {
  entries_.push_back(entry);
  file_.write(to_line(entry));
  file_.flush();
  std::vector<Scalar> scalars;
  visit_metrics(entry, [&](const char*, const char* tag, std::optional<double> value) {
    if (value) scalars.push_back({tag, *value});
  });
  events_.append(entry.step, scalars);
}

void RunLog::draw(double baseline, const std::string& name) const {
  LineChart chart{.title = "Loss", .x_label = "step", .y_label = "nats per token"};
  LineChart::Series train{.name = "train", .points = {}};
  LineChart::Series validation{.name = "validation", .points = {}};
  for (const LogEntry& e : entries_) {
    const auto step = static_cast<double>(e.step);
    train.points.push_back({step, e.train_loss.value_or(e.loss)});
    if (e.val_loss) validation.points.push_back({step, *e.val_loss});
  }
  chart.series = {std::move(train)};
  if (!validation.points.empty()) chart.series.push_back(std::move(validation));
  if (baseline > 0.0) chart.references.push_back({name, baseline});
  core::write_file_atomically(run_ / "loss.svg", chart.svg());
}

}  // namespace folio::train
