#include <fmt/format.h>

#include <cmath>
#include <map>

#include "core/error.h"
#include "core/file_io.h"
#include "core/formats/model_files.h"
#include "data/tokenizers/tokenizer_files.h"
#include "experiments/28_forms/automaton.h"
#include "experiments/28_forms/parts.h"
#include "experiments/28_forms/people.h"
#include "experiments/common/trainer.h"
#include "infer/cpu/cpu.h"

namespace folio::experiments {
namespace {

using infer::forms::FormOptions;

constexpr int64_t kLineTokens = 240;

struct Judged {
  double free = 0.0, held = 0.0;  // fractions of outputs that match the form, generated without and with it
  double weight = 0.0;            // product, over steps, of the allowed tokens' total probability; mean over outputs
  double weight_error = 0.0;      // standard error of `weight`
  int64_t held_wrong = 0;         // number of complete outputs generated with the form that do not match it
  int64_t differ = 0;             // number of disagreements between the form and a JSON parser
};

// Trains a small model for `steps` steps, which takes seconds.
core::StoredModel trained_on(const Report& report, const std::filesystem::path& lines, int64_t steps) {
  const std::string name = fmt::format("people_{}", steps);
  run_trainer(
      report, lines, name,
      fmt::format("--dim 64 --layers 2 --heads 2 --kv-heads 2 --head-dim 32 --hidden-dim 176 --steps {}", steps));
  return core::read_model(report.directory() / name / "model.gguf");
}

class Model {
 public:
  Model(Report& report, const std::filesystem::path& lines, int64_t steps)
      : report_(report),
        stored_(trained_on(report, lines, steps)),
        tokenizer_(data::tokenizer_from_gguf(*stored_.gguf)),
        engine_(stored_, cpu_, {.n_sequences = 32}),
        form_(form_for(*tokenizer_, FormOptions::Kind::JsonSchema, kPersonSchema)) {}

  [[nodiscard]] Judged judged_lines(size_t n, bool shows_faults) {
    const Tokens prompt = tokenizer_->encode("\n");
    const std::vector<Tokens> prompts(n, prompt);
    const uint64_t seed = report_.seed() * 10'000;
    const auto free = drawn(engine_, *tokenizer_, prompts, {.max_tokens = kLineTokens, .stops = {"\n"}, .seed = seed});
    const auto held =
        drawn(engine_, *tokenizer_, prompts, {.form = form_, .max_tokens = kLineTokens, .seed = seed + n});
    Judged it;
    std::map<std::string, std::pair<size_t, std::string>> faults;  // number of faults and an example, by kind
    double good_bytes = 0.0;
    for (const auto& result : free) {
      const Verdict verdict = judged(*form_, result.text);
      it.free += verdict.fits ? 1.0 : 0.0;
      it.differ += verdict.fits != begins_with_person(result.text) ? 1 : 0;
      if (verdict.fits) continue;
      auto& [count, example] = faults[verdict.where];
      ++count;
      good_bytes += static_cast<double>(verdict.n_good);
      const std::string marked = result.text.substr(0, verdict.n_good) + "»" + result.text.substr(verdict.n_good, 12);
      if (example.empty() || marked.size() < example.size()) example = marked;
    }
    const double n_wrong = static_cast<double>(n) - it.free;
    double squares = 0.0;
    for (const auto& result : held) {
      const bool fits = judged(*form_, result.text).fits;
      it.held += fits ? 1.0 : 0.0;
      it.differ += fits != begins_with_person(result.text) ? 1 : 0;
      it.held_wrong += !fits && result.finish_reason == infer::FinishReason::Stop ? 1 : 0;
      // An output cut off at the token limit does not match the form, so its weight is 0.
      const double weight =
          fits ? std::exp(log_product(walk(engine_, *tokenizer_, *form_, prompt, result.tokens), &Step::mass)) : 0.0;
      it.weight += weight;
      squares += weight * weight;
    }
    const auto count = static_cast<double>(n);
    it.weight /= count;
    it.weight_error = std::sqrt((squares / count - it.weight * it.weight) / count);
    it.free /= count;
    it.held /= count;
    if (shows_faults) {
      report_.say("free:          " + free[0].text + "\n               " + free[1].text);
      report_.say("with the form: " + held[0].text + "\n               " + held[1].text);
      Report::Rows rows;
      for (const auto& [where, what] : faults) {
        rows.push_back({where, what.first, static_cast<double>(what.first) / n_wrong, what.second});
      }
      report_.value("free lines that don't fit", static_cast<int64_t>(n_wrong));
      report_.value("valid bytes of these, mean", good_bytes / n_wrong);
      report_.table(fmt::format("where {} free lines leave the form, after {:.0f} valid bytes on average", n_wrong,
                                good_bytes / n_wrong),
                    {"what the form requires", "lines", "share", "one of them; » precedes what is not allowed"}, rows);
    }
    return it;
  }

  void automaton() {
    const Automaton all = Automaton::of(*form_);
    const Automaton few = all.shortened();
    report_.say(fmt::format("the schema: {} states, {} in the picture", all.states.size(), few.states.size()));
    report_.picture("person.svg", few.svg("The schema of a person as an automaton",
                                          "bytes that must follow each other are one arrow"));
  }

 private:
  Report& report_;
  core::StoredModel stored_;
  std::unique_ptr<data::Tokenizer> tokenizer_;
  infer::Cpu cpu_;
  infer::Engine engine_;
  std::shared_ptr<infer::forms::Form> form_;
};

}  // namespace

void json_lines(Report& report) {
  if (report.short_form() && !has_trainer()) {
    report.say("lines of JSON: left out, there is no build/train");
    return;
  }
  const auto lines = report.directory() / "people.txt";
  core::write_file_atomically(lines, people(report.seed(), report.short_form() ? 2000 : 20'000));
  const size_t n = report.short_form() ? 48 : 400;
  const std::vector<int64_t> all_steps =
      report.short_form() ? std::vector<int64_t>{120} : std::vector<int64_t>{200, 300, 600};
  Report::Rows rows;
  for (const int64_t steps : all_steps) {
    Model model(report, lines, steps);
    if (steps == all_steps.front()) model.automaton();
    const Judged it = model.judged_lines(n, all_steps.size() == 1 || steps == all_steps[1]);
    rows.push_back({steps, it.free, it.held, it.weight});
    report.check_below(fmt::format("{} steps: free lines that fit, share", steps), it.free, 0.98);
    report.check_equal(fmt::format("{} steps: lines with the form that end and don't fit", steps), it.held_wrong, 0);
    report.check_equal(fmt::format("{} steps: lines on which the form and a reader of JSON differ", steps), it.differ,
                       0);
    const double error =
        std::sqrt(it.weight_error * it.weight_error + it.free * (1 - it.free) / static_cast<double>(n));
    if (!report.short_form()) {
      report.check_above(fmt::format("{} steps: lines with the form that fit, share", steps), it.held, 0.9);
      report.check_below(
          fmt::format("{} steps: mean product of m against the share of free lines, in standard errors", steps),
          std::abs(it.weight - it.free) / error, 5.0);
    }
  }
  report.table("lines of JSON that fit", {"steps", "free", "with the form", "mean product of m"}, rows);
}

}  // namespace folio::experiments
