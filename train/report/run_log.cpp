#include "train/report/run_log.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file_io.h"
#include "core/file_status.h"
#include "train/report/line_chart.h"

namespace folio::train {
namespace {

namespace fs = std::filesystem;

std::string to_line(const LogEntry& e) {
  nlohmann::ordered_json json = {{"step", e.step}, {"tokens", e.tokens},       {"loss", e.loss},
                                 {"lr", e.lr},     {"grad_norm", e.grad_norm}, {"tokens_per_s", e.tokens_per_s}};
  if (e.peak_share) json["peak_share"] = *e.peak_share;
  if (e.train_loss) json["train_loss"] = *e.train_loss;
  if (e.val_loss) json["val_loss"] = *e.val_loss;
  if (e.expert_load) json["expert_load"] = *e.expert_load;
  if (e.sample) json["sample"] = *e.sample;
  // A sample may end within a character.
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::vector<Scalar> scalars_of(const LogEntry& e) {
  std::vector<Scalar> scalars{
      {"loss/train", e.loss}, {"lr", e.lr}, {"grad_norm", e.grad_norm}, {"tokens_per_s", e.tokens_per_s}};
  if (e.peak_share) scalars.push_back({"peak_share", *e.peak_share});
  if (e.train_loss) scalars.push_back({"loss/train_evaluation", *e.train_loss});
  if (e.val_loss) scalars.push_back({"loss/validation", *e.val_loss});
  if (e.expert_load) scalars.push_back({"expert_load", *e.expert_load});
  return scalars;
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
    const auto text = [&](const char* key) {
      return json.contains(key) && json[key].is_string() ? std::optional(json[key].get<std::string>()) : std::nullopt;
    };
    if (!number("step") || !number("loss")) continue;
    entries.push_back({.step = static_cast<int64_t>(*number("step")),
                       .tokens = static_cast<int64_t>(number("tokens").value_or(0)),
                       .loss = *number("loss"),
                       .lr = number("lr").value_or(0),
                       .grad_norm = number("grad_norm").value_or(0),
                       .tokens_per_s = number("tokens_per_s").value_or(0),
                       .peak_share = number("peak_share"),
                       .train_loss = number("train_loss"),
                       .val_loss = number("val_loss"),
                       .expert_load = number("expert_load"),
                       .sample = text("sample")});
  }
  return entries;
}

RunLog::RunLog(const fs::path& run, int64_t keep_up_to) : run_(run) {
  const fs::path path = run / "log.jsonl";
  if (core::path_exists(path)) {
    core::require(core::is_plain_file(path), "{} is not a regular file; remove it, or take another --out",
                  path.string());
    entries_ = read_log(path);
  }
  std::erase_if(entries_, [&](const LogEntry& entry) { return entry.step > keep_up_to; });
  std::string kept;
  for (const LogEntry& entry : entries_) kept += to_line(entry);
  core::write_file_atomically(path, kept);
  file_ = std::make_unique<core::OutputFile>(path, core::OutputFile::Mode::Append);
  events_ = std::make_unique<EventFile>(run, keep_up_to);
}

void RunLog::append(const LogEntry& entry) {
  entries_.push_back(entry);
  file_->write(to_line(entry));
  file_->flush();
  events_->append(entry.step, scalars_of(entry));
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
  chart.series.push_back(std::move(train));
  if (!validation.points.empty()) chart.series.push_back(std::move(validation));
  if (baseline > 0.0) chart.references.push_back({name, baseline});
  core::write_file_atomically(run_ / "loss.svg", chart.svg());
}

}  // namespace folio::train
