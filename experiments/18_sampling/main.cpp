// What do temperature, top-k, top-p and min-p do to a text? Table, pictures and explanation: README.md beside this
// file.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/error.h"
#include "data/corpus.h"
#include "experiments/18_sampling/cut_picture.h"
#include "experiments/18_sampling/laws.h"
#include "experiments/18_sampling/texts.h"
#include "experiments/common/readers_model.h"
#include "experiments/common/statistics.h"
#include "infer/cpu/cpu.h"

namespace {

using namespace folio;  // NOLINT: a program of one file
using experiments::Candidate;
using experiments::Counted;
using experiments::Report;
using experiments::Text;

constexpr size_t kPrompt = 32;

struct Setting {
  std::string name;
  infer::SamplerOptions options;
};

const std::vector<Setting>& settings() {
  static const std::vector<Setting> kSettings{
      {"greedy", {.temperature = 0.0F, .top_p = 1.0F}},
      {"T = 0.25", {.temperature = 0.25F, .top_p = 1.0F}},
      {"T = 0.5", {.temperature = 0.5F, .top_p = 1.0F}},
      {"T = 0.75", {.temperature = 0.75F, .top_p = 1.0F}},
      {"T = 1", {.temperature = 1.0F, .top_p = 1.0F}},
      {"T = 1.25", {.temperature = 1.25F, .top_p = 1.0F}},
      {"T = 1.5", {.temperature = 1.5F, .top_p = 1.0F}},
      {"top-k 5", {.temperature = 1.0F, .top_k = 5, .top_p = 1.0F}},
      {"top-p 0.9", {.temperature = 1.0F, .top_p = 0.9F}},
      {"min-p 0.1", {.temperature = 1.0F, .top_p = 1.0F, .min_p = 0.1F}},
      {"top-p 0.95, T = 0.8", {.temperature = 0.8F, .top_p = 0.95F}},
  };
  return kSettings;
}

// A number of all texts, or its mean by seed: texts are in the order of the seeds.
std::vector<double> of_each(const std::vector<Counted>& texts, double Counted::*number) {
  std::vector<double> values;
  for (const Counted& text : texts) values.push_back(text.*number);
  return values;
}

double mean(std::span<const double> values) {
  double sum = 0.0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

class Study {
 public:
  explicit Study(Report& report)
      : report_(report),
        reader_(experiments::readers_model(report)),
        n_prompts_(report.short_form() ? 8 : 32),
        n_tokens_(report.short_form() ? 96 : 192),
        engine_(reader_.model, cpu_, {.n_sequences = static_cast<int64_t>(n_prompts_)}),
        suppressed_(reader_.tokenizer->suppressed_tokens()) {
    core::require(reader_.model.config.context_length >= static_cast<int64_t>(kPrompt + n_tokens_),
                  "the model sees {} tokens, but this study's texts have {}; train one with --context 256",
                  reader_.model.config.context_length, kPrompt + n_tokens_);
    const data::Corpus corpus = data::load_corpus("tinyshakespeare");
    book_ = reader_.tokenizer->encode(corpus.text);
    validation_ = data::split_tokens(book_, 0.1, 0.0).validation;
  }

  void run() {
    std::vector<Text> book;
    for (const uint64_t seed : report_.seeds()) {
      const std::vector<Text> part = prompts(seed);
      book.insert(book.end(), part.begin(), part.end());
    }
    counted_["the book"] = experiments::counted(engine_, book, suppressed_, settings()[4].options);
    for (const Setting& setting : settings()) {
      std::vector<Counted>& all = counted_[setting.name];
      for (const uint64_t seed : report_.seeds()) {
        infer::SamplerOptions options = setting.options;
        options.seed = 1000 * seed;
        const auto texts = experiments::continued(engine_, *reader_.tokenizer, prompts(seed), n_tokens_, options);
        const auto part = experiments::counted(engine_, texts, suppressed_, options);
        all.insert(all.end(), part.begin(), part.end());
        if (seed == report_.seed()) sample(setting.name, texts[0]);
      }
    }
    table();
    claims();
    cuts(book[0]);
  }

 private:
  // Of the validation text, each with what follows in the book.
  [[nodiscard]] std::vector<Text> prompts(uint64_t seed) const {
    std::vector<Text> texts;
    const size_t length = kPrompt + n_tokens_;
    for (size_t i = 0; i < n_prompts_; ++i) {
      const size_t at = ((seed * n_prompts_ + i) * 1021) % (validation_.size() - length);
      const auto text = validation_.subspan(at, length);
      texts.push_back(
          {.prompt = {text.begin(), text.begin() + kPrompt}, .tokens = {text.begin() + kPrompt, text.end()}});
    }
    return texts;
  }

  void sample(const std::string& name, const Text& text) const {
    std::string line = reader_.tokenizer->decode(text.prompt) + "|" + reader_.tokenizer->decode(text.tokens);
    for (size_t at = 0; (at = line.find('\n', at)) != std::string::npos;) line.replace(at, 1, "\\n");
    report_.say(fmt::format("{}: {}", name, line));
  }

  [[nodiscard]] std::vector<double> all(const std::string& name, double Counted::*number) const {
    return of_each(counted_.at(name), number);
  }
  [[nodiscard]] std::vector<double> by_seed(const std::string& name, double Counted::*number) const {
    const std::vector<double> values = all(name, number);
    std::vector<double> means;
    for (size_t at = 0; at < values.size(); at += n_prompts_)
      means.push_back(mean(std::span(values).subspan(at, n_prompts_)));
    return means;
  }

  void table() {
    std::vector<std::vector<Report::Json>> rows;
    train::LineChart chart{.title = "Texts by temperature",
                           .x_label = "temperature",
                           .y_label = "nats for each token",
                           .series = {{"-ln p of the text", {}}, {"entropy of what it is drawn from", {}}},
                           .references = {{"-ln p of the book", mean(all("the book", &Counted::surprise))}}};
    std::vector<std::string> names{"the book"};
    for (const Setting& setting : settings()) names.push_back(setting.name);
    for (const std::string& name : names) {
      const auto number = [&](double Counted::*which) { return mean(all(name, which)); };
      const auto interval =
          experiments::paired_interval(all(name, &Counted::repeated), all("the book", &Counted::repeated));
      rows.push_back(
          {name, fmt::format("{:.1f}", number(&Counted::kept)), number(&Counted::kept_mass), number(&Counted::entropy),
           number(&Counted::surprise), number(&Counted::distinct), number(&Counted::repeated),
           name == "the book"
               ? Report::Json()
               : Report::Json(fmt::format("{:+.3f} [{:+.3f}, {:+.3f}]", interval.mean, interval.low, interval.high))});
    }
    for (const Setting& setting : settings()) {
      if (setting.options.top_k > 0 || setting.options.top_p < 1.0F || setting.options.min_p > 0.0F) continue;
      const double t = setting.options.temperature;
      chart.series[0].points.push_back({t, mean(all(setting.name, &Counted::surprise))});
      chart.series[1].points.push_back({t, mean(all(setting.name, &Counted::entropy))});
    }
    report_.table(fmt::format("{} texts of {} tokens for each setting", counted_.at("greedy").size(), n_tokens_),
                  {"drawn", "tokens kept", "probability kept", "entropy", "-ln p", "distinct 4-grams",
                   "repeated 8-grams", "more than the book"},
                  rows);
    report_.picture("temperature.svg", chart);
  }

  void claims() {
    int64_t other = 0;
    int64_t n_drawn = 0;
    for (const Setting& setting : settings()) {
      for (const Counted& text : counted_.at(setting.name)) other += text.other;
      n_drawn += static_cast<int64_t>(counted_.at(setting.name).size() * n_tokens_);
    }
    report_.claim_equal(fmt::format("of {} tokens: other than the textbook's draw from (seed, position)", n_drawn),
                        other, 0);
    const auto gap = [&](const std::string& a, const std::string& b, double Counted::*number) {
      return experiments::differences(by_seed(a, number), by_seed(b, number));
    };
    report_.claim_above("repeated 8-grams: greedy more than T = 1", gap("greedy", "T = 1", &Counted::repeated), 0.1);
    report_.claim_above("distinct 4-grams: T = 1 more than greedy", gap("T = 1", "greedy", &Counted::distinct), 0.1);
    const std::vector<std::string> rising{"greedy", "T = 0.25", "T = 0.5", "T = 0.75", "T = 1", "T = 1.25", "T = 1.5"};
    for (size_t i = 1; i < rising.size(); ++i) {
      report_.claim_above(fmt::format("entropy: {} more than {}", rising[i], rising[i - 1]),
                          gap(rising[i], rising[i - 1], &Counted::entropy), 0.05);
    }
    report_.claim_above("-ln p: the book more than greedy", gap("the book", "greedy", &Counted::surprise), 0.5);
    report_.claim_above("-ln p: T = 1.5 more than the book", gap("T = 1.5", "the book", &Counted::surprise), 0.3);
    std::vector<double> errors;  // a text of the model's own is as surprising, on average, as the model expects
    const auto surprise = by_seed("T = 1", &Counted::surprise);
    const auto entropy = by_seed("T = 1", &Counted::entropy);
    const auto variance = by_seed("T = 1", &Counted::surprise_variance);
    for (size_t i = 0; i < surprise.size(); ++i) {
      errors.push_back(std::abs(surprise[i] - entropy[i]) /
                       std::sqrt(variance[i] / static_cast<double>(n_prompts_ * n_tokens_)));
    }
    report_.claim_below("T = 1: -ln p against entropy, in standard errors", errors, 5.0);
    const auto least = [&](const std::string& name) {
      const auto masses = all(name, &Counted::least_mass);
      return *std::min_element(masses.begin(), masses.end());
    };
    report_.claim_above("top-p 0.9: the least probability that it keeps", least("top-p 0.9"), 0.9 - 1e-6);
    report_.claim_below("top-k 5: likewise", least("top-k 5"), 0.75);
    report_.claim_below("min-p 0.1: likewise", least("min-p 0.1"), 0.9);
  }

  // A sure and an unsure position of the book's first text.
  void cuts(const Text& text) {
    std::vector<int32_t> tokens = text.prompt;
    tokens.insert(tokens.end(), text.tokens.begin(), text.tokens.end());
    const auto vocab = static_cast<size_t>(reader_.model.config.vocab_size);
    const std::vector<float> logits = experiments::logits_of(engine_, tokens);
    const auto after = [&](size_t at) { return std::span(logits).subspan(at * vocab, vocab); };
    std::vector<std::pair<double, size_t>> by_entropy;
    for (size_t at = kPrompt - 1; at + 1 < tokens.size(); ++at) {
      by_entropy.push_back({experiments::entropy(experiments::ranked(after(at), suppressed_)), at});
    }
    std::sort(by_entropy.begin(), by_entropy.end());
    experiments::CutPicture picture{
        .title = "The next character: two real distributions, and where they are cut",
        .subtitle = "bars are drawn to the likeliest's length; below each cut what it keeps",
        .cuts = {{"top-k 5", settings()[7].options},
                 {"top-p 0.9", settings()[8].options},
                 {"min-p 0.1", settings()[9].options}},
        .panels = {}};
    std::vector<std::vector<Report::Json>> rows;
    for (const bool sure : {true, false}) {
      const size_t at = sure ? by_entropy[by_entropy.size() / 8].second : by_entropy.back().second;
      experiments::CutPicture::Panel panel{.model = experiments::ranked(after(at), suppressed_)};
      std::string before = reader_.tokenizer->decode(
          {tokens.begin() + static_cast<ptrdiff_t>(at + 1 - 24), tokens.begin() + static_cast<ptrdiff_t>(at + 1)});
      panel.title = (sure ? "sure, after …" : "unsure, after …") + shown(before);
      for (size_t i = 0; i < std::min<size_t>(16, panel.model.size()); ++i)
        panel.names.push_back(shown(reader_.tokenizer->token_bytes(panel.model[i].token)));
      for (const auto& cut : picture.cuts) {
        const size_t n = experiments::n_kept(panel.model, cut.options);
        rows.push_back({fmt::format("{}, {}", sure ? "sure" : "unsure", cut.name), static_cast<int64_t>(n),
                        experiments::mass(std::span(panel.model).first(n)), panel.model[n - 1].p});
      }
      picture.panels.push_back(std::move(panel));
    }
    report_.table("Two positions", {"cut", "tokens kept", "probability kept", "of the last one"}, rows);
    report_.picture("cuts.svg", picture.svg());
    experiments::claim_laws_of_draws(report_, after(by_entropy.back().second));
  }

  static std::string shown(const std::string& text) {
    std::string out;
    for (const char c : text) out += c == '\n' ? "↵" : c == ' ' ? "␣" : std::string(1, c);
    return out;
  }

  Report& report_;
  experiments::ReadersModel reader_;
  size_t n_prompts_, n_tokens_;
  infer::Cpu cpu_;
  infer::Engine engine_;
  std::vector<int32_t> suppressed_;
  std::vector<int32_t> book_;
  std::span<const int32_t> validation_;
  std::map<std::string, std::vector<Counted>> counted_;  ///< by setting
};

void study(Report& report) { Study(report).run(); }

}  // namespace

int main(int argc, char** argv) { return experiments::run_study(argc, argv, "18_sampling", study); }
