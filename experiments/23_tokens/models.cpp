#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <future>
#include <nlohmann/json.hpp>
#include <numbers>

#include "core/error.h"
#include "core/file_io.h"
#include "core/formats/model_files.h"
#include "core/manifest.h"
#include "data/corpus.h"
#include "data/tokenizers/tokenizer_files.h"
#include "experiments/23_tokens/parts.h"
#include "experiments/common/trainer.h"

namespace folio::experiments {
namespace fs = std::filesystem;
namespace {

// Returns the number that follows the text `before` in `printed`, the trainer's output.
double number_after(const std::string& printed, const std::string& before) {
  const size_t at = printed.find(before);
  core::require(at != std::string::npos, "the trainer's output has no \"{}\"", before);
  return std::strtod(printed.c_str() + at + before.size(), nullptr);
}

double bits_per_byte(double nats_per_token, double bytes_per_token) {
  return nats_per_token / bytes_per_token / std::numbers::ln2;
}

double bytes_per_token(const data::Tokenizer& tokenizer, std::span<const int32_t> tokens) {
  size_t n_bytes = 0;
  for (const int32_t token : tokens) n_bytes += tokenizer.token_bytes(token).size();
  return ratio(n_bytes, tokens.size());
}

struct Trained {
  int64_t n_tokens = 0;    // vocabulary size
  int64_t parameters = 0;  // number of parameters in total
  int64_t embedding = 0;   // parameters of the embedding
  int64_t steps = 0;
  double seconds = 0.0;
  double tokens_per_s = 0.0;
  double bytes_per_token = 0.0;  // in the validation split
  double loss = 0.0;             // nats per token, on the whole validation split
  double trainers_bits = 0.0;    // bits per byte reported by the trainer
  std::vector<train::LineChart::Point> curve{};

  [[nodiscard]] double bits(double nats_per_token) const { return bits_per_byte(nats_per_token, bytes_per_token); }
};

// Trains a model on `text` with build/train in the folder `name`. `flags` set the duration and the tokenizer.
Trained trained(const Report& report, const fs::path& text, const std::string& name, const std::string& flags) {
  // Evaluates only at the end: evaluations during training would slow down models with larger vocabularies more.
  const std::string printed = run_trainer(report, text, name, flags + " --eval-every 1000000 --sample 0");
  const fs::path run = report.directory() / name;
  Trained it;
  it.seconds = number_after(printed, "done in ");
  it.loss = number_after(printed, "best validation loss ");
  it.trainers_bits = number_after(printed, "that is ");
  const core::StoredModel model = core::read_model(run / "model.gguf");
  it.n_tokens = model.config.vocab_size;
  it.embedding = model.config.vocab_size * model.config.dim;
  it.parameters = core::parameter_count(model.config);

  const auto vocabulary = data::tokenizer_from_gguf(*model.gguf);
  const auto tokens = vocabulary->encode(core::read_text_file(text));
  const auto splits = data::split_tokens(tokens, 0.1, 0.0);
  it.bytes_per_token = bytes_per_token(*vocabulary, splits.validation);
  const double in_training = bytes_per_token(*vocabulary, splits.train);

  // Batch losses, averaged over each twentieth of the run.
  std::vector<nlohmann::json> lines;
  std::ifstream log_lines(run / "log.jsonl");
  for (std::string line; std::getline(log_lines, line);) lines.push_back(nlohmann::json::parse(line));
  core::require(!lines.empty(), "{}: no losses", (run / "log.jsonl").string());
  it.steps = lines.back().at("step").get<int64_t>();
  it.tokens_per_s = lines.back().at("tokens").get<double>() / it.seconds;
  const size_t group = std::max<size_t>(1, lines.size() / 20);
  for (size_t begin = 0; begin + group <= lines.size(); begin += group) {
    double loss = 0.0, step = 0.0;
    for (size_t i = begin; i < begin + group; ++i) {
      loss += lines[i].at("loss").get<double>() / static_cast<double>(group);
      step += lines[i].at("step").get<double>() / static_cast<double>(group);
    }
    it.curve.push_back({it.seconds * step / static_cast<double>(it.steps), bits_per_byte(loss, in_training)});
  }
  return it;
}

}  // namespace

void models(Report& report, const Text& text) {
  if (report.short_form() && !has_trainer()) {
    report.say("models: left out, there is no build/train");
    return;
  }
  const fs::path file = report.directory() / "text.txt";
  core::write_file_atomically(file, text.training + text.validation);
  const std::string how_long = report.short_form() ? "--steps 20" : "--minutes 5";
  train::LineChart chart{.title = "Four vocabularies, the same time",
                         .x_label = "seconds of training",
                         .y_label = "bits a byte of the batches, which are training text"};
  Report::Rows sizes, speeds, losses;
  std::vector<double> nats;
  std::vector<int64_t> n_tokens{0, 512};  // vocabulary sizes; 0: a character vocabulary
  if (!report.short_form()) n_tokens.insert(n_tokens.end(), {2048, 8192});
  // Trains all models at once, so that other load on the machine affects all equally.
  std::vector<std::future<Trained>> runs;
  for (const int64_t n : n_tokens) {
    const std::string name = n == 0 ? "letters" : fmt::format("bpe_{}", n);
    const std::string flags = how_long + (n == 0 ? "" : fmt::format(" --tokenizer bpe:{}", n));
    runs.push_back(std::async(std::launch::async, trained, std::cref(report), file, name, flags));
  }
  report.say("training, see the .log files in " + report.directory().string());
  for (auto& run : runs) {
    const Trained it = run.get();
    const double guessing = std::log(static_cast<double>(it.n_tokens));
    report.say(fmt::format("{} tokens: {} steps in {:.1f} s", it.n_tokens, it.steps, it.seconds));
    sizes.push_back({it.n_tokens, it.parameters, it.embedding, ratio(it.embedding, it.parameters)});
    speeds.push_back({it.n_tokens, it.seconds, it.steps, static_cast<int64_t>(it.tokens_per_s), it.bytes_per_token,
                      static_cast<int64_t>(it.tokens_per_s * it.bytes_per_token)});
    losses.push_back({it.n_tokens, guessing, it.loss, it.bytes_per_token, it.bits(guessing), it.bits(it.loss)});
    if (!nats.empty()) {
      report.check_above(fmt::format("{} tokens: nats a token more than with the fewer tokens before", it.n_tokens),
                         it.loss - nats.back(), 0.0);
    }
    nats.push_back(it.loss);
    chart.series.push_back({.name = fmt::format("{} tokens", it.n_tokens), .points = it.curve});
    report.check_below(fmt::format("{} tokens: bits a byte by the formula and by the trainer, difference", it.n_tokens),
                       std::abs(it.bits(it.loss) - it.trainers_bits), 0.001);
    report.check_below(fmt::format("{} tokens: nats a token, of guessing's", it.n_tokens), it.loss / guessing, 0.95);
  }
  report.table("four models: parameters", {"tokens", "parameters", "of the embedding", "share"}, sizes);
  report.table("what they got through", {"tokens", "seconds", "steps", "tokens/s", "bytes a token", "bytes/s"}, speeds);
  report.table("losses on the validation text",
               {"tokens", "guessing, nats a token", "the model", "bytes a token", "guessing, bits a byte", "the model"},
               losses);
  report.picture("time.svg", chart);
}

}  // namespace folio::experiments
