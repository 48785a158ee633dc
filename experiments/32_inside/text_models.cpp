#include "experiments/32_inside/text_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <set>

#include "core/error.h"
#include "core/random.h"
#include "data/corpus.h"
#include "experiments/32_inside/scores.h"
#include "experiments/common/readers_model.h"
#include "experiments/common/training.h"
#include "infer/cpu/cpu.h"
#include "infer/engine/prompt_report.h"
#include "infer/explain/analysis.h"
#include "infer/forward/runner.h"

namespace folio::experiments {
namespace {

constexpr int64_t kTokens = 64, kPeriod = 32;
constexpr uint64_t kSequences = 4;  // number of sequences per seed
constexpr double kEach = 1.0 / static_cast<double>(kSequences);
constexpr double kInduction = 0.3;  // minimum prefix-matching score of a head to count as an induction head

struct Inspected {
  std::string name;
  int64_t n_layers = 0, n_heads = 0;
  // Scores by head, at [layer · n_heads + head]:
  Doubles previous{};         // previous-token scores on text
  Doubles previous_random{};  // previous-token scores on random tokens
  Doubles prefix{};           // prefix-matching scores on repeated random tokens, averaged over seeds
  Doubles prefix_once{};      // prefix-matching scores on random tokens without repetition, as a baseline
  Doubles best{};             // by seed: the largest prefix-matching score
  Doubles early{}, late{};    // by seed: losses of the first and of the second occurrence of the tokens
  // Induction heads, heads of the same layers with the smallest prefix-matching scores, and previous-token heads.
  std::vector<Head> induction{}, others{}, before{};
  // Losses by seed, on the repeated tokens and on text. [0]: with all heads. [1], [2], [3]: with the heads `induction`,
  // `others` and `before` disabled.
  std::array<Doubles, 4> late_without{}, text_without{};
  HeatMap::Panel picture{};  // attention weights of the head with the largest prefix-matching score
};

Head head_of(const Inspected& it, size_t i) {
  return {static_cast<int64_t>(i) / it.n_heads, static_cast<int64_t>(i) % it.n_heads};
}

// Sets `induction` to the n heads with a prefix-matching score of at least kInduction; `others` to at most n heads of
// the same layers with the smallest scores; and `before` to the n heads with the largest previous-token scores.
void choose_heads(Inspected& it) {
  auto order = from_largest(it.prefix);
  std::set<int64_t> layers;
  for (const size_t i : order) {
    if (it.prefix[i] < kInduction) continue;
    it.induction.push_back(head_of(it, i));
    layers.insert(it.induction.back().layer);
  }
  std::ranges::reverse(order);
  for (const size_t i : order) {
    if (it.others.size() == it.induction.size() || it.prefix[i] >= kInduction) break;
    if (layers.contains(head_of(it, i).layer)) it.others.push_back(head_of(it, i));
  }
  const auto by_previous = from_largest(it.previous);
  for (const size_t i : std::span(by_previous).first(it.induction.size())) it.before.push_back(head_of(it, i));
}

// Runs a model on text, on repeated random tokens, and on distinct random tokens. Each function has a parameter `own`,
// the seed of its sequence. `model` must outlive the object.
class Subject {
 public:
  Subject(const core::StoredModel& model, const data::Tokenizer& tokenizer)
      : text_(tokenizer.encode(data::load_corpus("tinyshakespeare").text)),
        validation_(data::split_tokens(text_, 0.1, 0.0).validation),
        runner_(model, cpu_, {.max_positions = kTokens, .n_sequences = 1}) {
    const std::set<int32_t> distinct(text_.begin(), text_.end());
    vocabulary_.assign(distinct.begin(), distinct.end());
  }

  struct Watched {
    std::vector<std::vector<float>> weights{};  // attention weights [layer · n_heads + head][query · T + key]
    std::vector<double> losses{};               // (T - 1): −ln p of each token after the first
  };
  [[nodiscard]] Watched on_text(uint64_t own, std::span<const Head> off = {}) {
    return run(validation_.subspan(core::random_below(own, 0, validation_.size() - kTokens), kTokens), off);
  }
  [[nodiscard]] Watched repeated(uint64_t own, std::span<const Head> off = {}) {
    return run(repeated_tokens(vocabulary_, kPeriod, kTokens, own), off);
  }
  [[nodiscard]] Watched not_repeated(uint64_t own) {  // repeats only if the vocabulary is too small
    return run(repeated_tokens(vocabulary_, std::min(kTokens, std::ssize(vocabulary_)), kTokens, own));
  }
  [[nodiscard]] Watched drawn(uint64_t own) { return run(repeated_tokens(vocabulary_, kDrawnPeriod, kDrawn, own)); }

 private:
  // Runs T tokens as a new sequence in one step, with the outputs of the heads `off` set to 0.
  Watched run(std::span<const int32_t> tokens, std::span<const Head> off = {}) {
    infer::explain::Options options;
    for (const Head& one : off) options.experiment.ablate.push_back(shown(one));
    const infer::explain::Trace prompt{.tokens = {tokens.begin(), tokens.end()}};
    const infer::explain::Interventions silence(runner_, options, prompt);
    const infer::explain::Trace trace = infer::explain::run_traced(runner_, tokens, options, &silence);

    Watched watched;
    const infer::explain::Tensors tensors(runner_.model());
    for (int64_t layer = 0; layer < runner_.config().n_layers; ++layer) {
      const auto all = infer::explain::attention_weights(tensors, layer, trace);  // (heads, T, T)
      const auto size = static_cast<std::ptrdiff_t>(tokens.size() * tokens.size());
      for (auto head = all.begin(); head != all.end(); head += size) watched.weights.emplace_back(head, head + size);
    }
    for (size_t t = 0; t + 1 < tokens.size(); ++t) {
      watched.losses.push_back(infer::negative_log_likelihood(trace.row(trace.at("logits"), t), tokens[t + 1]));
    }
    return watched;
  }

  std::vector<int32_t> text_;
  std::span<const int32_t> validation_;
  std::vector<int32_t> vocabulary_;  // the distinct tokens of the text
  infer::Cpu cpu_;
  infer::Runner runner_;
};

// Returns the mean loss of the repeated tokens. losses[i] is the loss of token i + 1. The first repeated token is
// excluded, since it cannot be predicted.
double late_loss(const Subject::Watched& twice) { return mean_of(std::span(twice.losses).subspan(kPeriod)); }

void score(Inspected& it, Subject& subject, const std::vector<uint64_t>& seeds) {
  const double share = kEach / static_cast<double>(seeds.size());
  const auto add_to = [](Doubles& sum, const auto& heads, double factor, auto&& score) {
    sum.resize(heads.size(), 0.0);
    for (size_t i = 0; i < heads.size(); ++i) sum[i] += score(heads[i]) * factor;
  };
  const auto previous = [](std::span<const float> head) { return previous_token_score(head, kTokens); };
  const auto prefix = [](std::span<const float> head) { return prefix_matching_score(head, kTokens, kPeriod); };
  for (const uint64_t seed : seeds) {
    Doubles of_seed;
    double early = 0.0, late = 0.0;
    for (uint64_t i = 0; i < kSequences; ++i) {
      const uint64_t own = core::random_bits(seed, i);
      add_to(it.previous, subject.on_text(own).weights, share, previous);
      const auto once = subject.not_repeated(own), twice = subject.repeated(own);
      add_to(it.previous_random, once.weights, share, previous);
      add_to(it.prefix_once, once.weights, share, prefix);
      add_to(of_seed, twice.weights, kEach, prefix);
      early += kEach * mean_of(std::span(twice.losses).first(kPeriod - 1));
      late += kEach * late_loss(twice);
    }
    add_to(it.prefix, of_seed, 1.0 / static_cast<double>(seeds.size()), std::identity());
    it.best.push_back(largest(of_seed));
    it.early.push_back(early);
    it.late.push_back(late);
  }
}

void ablate(Inspected& it, Subject& subject, const std::vector<uint64_t>& seeds) {
  const std::array<std::span<const Head>, 4> off{{{}, it.induction, it.others, it.before}};
  for (size_t which = 0; which < (it.induction.empty() ? 1 : off.size()); ++which) {
    for (const uint64_t seed : seeds) {
      double late = 0.0, on_text = 0.0;
      for (uint64_t i = kSequences; i < 2 * kSequences; ++i) {  // not the sequences on which the heads were chosen
        const uint64_t own = core::random_bits(seed, i);
        late += kEach * late_loss(subject.repeated(own, off[which]));
        on_text += kEach * mean_of(subject.on_text(own, off[which]).losses);
      }
      it.late_without[which].push_back(late);
      it.text_without[which].push_back(on_text);
    }
  }
}

Inspected inspect(const Report& report, const std::string& name, const core::StoredModel& model,
                  const data::Tokenizer& tokenizer) {
  report.say("heads of " + name);
  core::require(model.config.context_length >= kTokens,
                "the model sees {} tokens, but this study's texts have {}; train one with --context 256",
                model.config.context_length, kTokens);
  Subject subject(model, tokenizer);
  Inspected it{.name = name, .n_layers = model.config.n_layers, .n_heads = model.config.n_heads};
  const auto seeds = five_seeds(report);
  score(it, subject, seeds);
  choose_heads(it);
  ablate(it, subject, seeds);
  const size_t best = from_largest(it.prefix).front();
  const auto drawn = subject.drawn(report.seed()).weights[best];
  it.picture =
      attention_panel(fmt::format("{}, head {}", name, shown(head_of(it, best))), {drawn.begin(), drawn.end()});
  return it;
}

void show_heads(Report& report, const std::vector<Inspected>& models) {
  Report::Rows rows, losses;
  HeatMap map{.title = "Every head of the models, by two scores",
              .subtitle = "mean weight on the token before in text, and on the token to copy in repeated random tokens",
              .row_label = "layer",
              .column_label = "head"};
  for (const Inspected& it : models) {
    for (const Doubles* scores : {&it.previous, &it.prefix}) {
      const bool first = scores == &it.previous;
      const auto order = from_largest(*scores);
      for (const size_t i : std::span(order).first(3)) {
        rows.push_back({fmt::format("{}, {}", it.name, shown(head_of(it, i))), first ? "token before" : "prefix",
                        it.previous[i], it.previous_random[i], it.prefix[i], it.prefix_once[i]});
      }
      map.panels.push_back({.title = fmt::format("{}: {}", it.name, first ? "before" : "prefix"),
                            .rows = it.n_layers,
                            .columns = it.n_heads,
                            .values = *scores});
    }
    losses.push_back({it.name, mean_of(it.early), mean_of(it.late), largest(it.prefix), std::ssize(it.induction),
                      std::ssize(it.prefix)});
  }
  report.table("The three heads of each model with the largest scores",
               {"head", "largest by", "token before, text", "token before, random", "prefix", "prefix, no repetition"},
               rows);
  report.table("32 random tokens, twice",
               {"", "loss, first time", "second time", "largest prefix score", "induction heads", "of heads"}, losses);
  report.picture("heads.svg", map.svg());

  rows.clear();
  const std::array<const char*, 4> names{"whole", "without its induction heads",
                                         "without as many others of their layers",
                                         "without as many previous-token heads"};
  for (const Inspected& it : models) {
    for (size_t which = 0; which < names.size() && !it.late_without[which].empty(); ++which) {
      rows.push_back({fmt::format("{}, {}", it.name, names[which]), mean_of(it.late_without[which]),
                      mean_of(it.text_without[which])});
    }
  }
  report.table("Heads with the output 0", {"", "loss, second time", "loss on text"}, rows);
}

}  // namespace

std::vector<HeatMap::Panel> inspect_models(Report& report) {
  std::vector<Inspected> models;
  const ReadersModel reader = readers_model(report);
  models.push_back(inspect(report, "your model", reader.model, *reader.tokenizer));
  if (report.short_form()) {
    report.say("SmolLM2: left out in the short form");
  } else if (const auto published = smollm2(report, "SmolLM2")) {
    models.push_back(inspect(report, "SmolLM2", published->model, *published->tokenizer));
  }
  show_heads(report, models);
  double equal = 0.0;  // the score of a head with equal weights on all positions
  for (int64_t t = 1; t < kTokens; ++t) equal += 1.0 / static_cast<double>((t + 1) * (kTokens - 1));
  report.value("token before: score of equal weights", equal);
  report.check_above("your model: a head's weight on the token before", largest(models[0].previous), 3.0 * equal);
  std::vector<HeatMap::Panel> drawn;
  for (const Inspected& it : models) drawn.push_back(it.picture);
  if (models.size() < 2) return drawn;

  const Inspected& it = models[1];
  report.check_above("SmolLM2: a head's weight on the token before", largest(it.previous), 0.5);
  report.check_above("SmolLM2: largest prefix-matching score", it.best, 0.5);
  report.check_below("SmolLM2: largest score of the same positions without a repetition", largest(it.prefix_once), 0.2);
  report.check_above("SmolLM2: nats that a token costs less the second time", differences(it.early, it.late), 5.0);
  report.check_above("SmolLM2: nats that it costs more without the induction heads than without as many others",
                     differences(it.late_without[1], it.late_without[2]), 4.0);
  return drawn;
}

}  // namespace folio::experiments
