// Compares fixed numbers of draft tokens with those that the engine chooses: tokens per second for 1 to 64 sequences,
// on repetitive and on other text. Each fixed number runs in pairs with the chosen ones, in alternating order; ratios
// are medians over pairs.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/seconds_since.h"
#include "infer/engine/loaded_model.h"

namespace {

using namespace folio;

constexpr size_t kAuto = SIZE_MAX;  // the engine chooses the number of drafts
constexpr size_t kMost = 8;
const std::vector<size_t> kFixed{0, 1, 2, 3, 4, 6, 8};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

std::vector<infer::Request> requests_of(const data::Tokenizer& tokenizer, size_t n, bool repeats, int64_t n_tokens) {
  std::vector<infer::Request> requests;
  for (size_t i = 0; i < n; ++i) {
    const std::string name{static_cast<char>('a' + i / 26), static_cast<char>('a' + i % 26)};
    const std::string verse =
        fmt::format("FIRST: What news of man {0}?\nSECOND: He is the man {0} of the king.\n", name);
    infer::Request request{.prompt = tokenizer.encode(repeats ? verse + verse + verse.substr(0, 7) : verse),
                           .options = {.max_tokens = n_tokens}};
    request.options.sampler = {.temperature = repeats ? 0.0F : 1.0F, .top_p = 1.0F, .seed = i};
    requests.push_back(std::move(request));
  }
  return requests;
}

struct Speed {
  double tokens_per_s;
  double tokens_per_step;  // per sequence
};

// Returns the speed with `side` draft tokens per sequence, measured while all sequences generate: from the time when
// each has its first token until one ends. If `side` is kAuto, the engine chooses the number, starting from the
// estimates in `learned`, which it updates.
Speed speed_of(infer::Engine& engine, std::vector<infer::Request> requests, size_t side, infer::Goodput& learned) {
  engine.goodput().set_times({}, 1e9);  // no drafts until all sequences generate, which would end some before
  size_t n_silent = requests.size();
  infer::ScopedRequests running(engine);
  for (infer::Request& request : requests) {
    request.options.speculate = side == kAuto ? kMost : side;
    request.on_token = [&, first = true](size_t, int32_t, std::span<const float>) mutable {
      if (std::exchange(first, false)) --n_silent;
    };
    running.add(std::move(request));
  }
  while (n_silent > 0) core::require(engine.step(), "the engine stopped early");
  const auto before = engine.statistics();
  core::require(before.running == requests.size(),
                "a sequence ended before all had begun; use more --tokens or fewer --sequences");
  engine.goodput() = learned;
  if (side != kAuto) engine.goodput().set_times({}, 0.0);  // as if drafts took no time: always tries `side` drafts
  const auto n = static_cast<double>(requests.size());
  const auto start = std::chrono::steady_clock::now();
  while (engine.step() && engine.statistics().running == requests.size()) continue;
  const double seconds = core::seconds_since(start);
  if (side == kAuto) learned = engine.goodput();
  const auto n_tokens = static_cast<double>(engine.statistics().tokens - before.tokens);
  return {n_tokens / seconds, n_tokens / n / static_cast<double>(engine.statistics().steps - before.steps)};
}

void measure(infer::LoadedModel& model, size_t n, bool repeats, int64_t n_tokens, size_t n_pairs) {
  infer::Engine& engine = model.engine();
  const std::vector<infer::Request> requests = requests_of(model.tokenizer(), n, repeats, n_tokens);
  infer::Goodput learned;
  std::vector<std::vector<double>> speeds(kFixed.size());
  std::vector<std::vector<double>> ratios(kFixed.size());
  std::vector<double> own_speeds;
  std::vector<double> per_step(kFixed.size());
  double own_per_step = 0.0;
  for (size_t pair = 0; pair <= n_pairs; ++pair) {  // the first pair warms up
    for (size_t i = 0; i < kFixed.size(); ++i) {
      Speed fixed{};
      if (pair % 2 == 0) fixed = speed_of(engine, requests, kFixed[i], learned);
      const Speed own = speed_of(engine, requests, kAuto, learned);
      if (pair % 2 == 1) fixed = speed_of(engine, requests, kFixed[i], learned);
      per_step[i] = fixed.tokens_per_step;
      own_per_step = own.tokens_per_step;
      if (pair == 0) continue;
      speeds[i].push_back(fixed.tokens_per_s);
      own_speeds.push_back(own.tokens_per_s);
      ratios[i].push_back(own.tokens_per_s / fixed.tokens_per_s);
    }
  }
  std::string line = fmt::format("{:3} {:8}", n, repeats ? "repeats" : "does not");
  double worst = 1e9;
  for (size_t i = 0; i < kFixed.size(); ++i) {
    line += fmt::format("  {:7.1f} ({:.3f}) {:.2f}", median(speeds[i]), median(ratios[i]), per_step[i]);
    worst = std::min(worst, median(ratios[i]));
  }
  line += fmt::format("  {:7.1f}  least {:.3f}  {:.2f}", median(own_speeds), worst, own_per_step);
  fmt::print("{}  {:.3f} + {:.4f} ms/row, {:.3f} ms/pass\n", line, learned.time().fixed * 1e3,
             learned.time().per_row * 1e3, learned.pass_seconds() * 1e3);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Measures the engine's own numbers of draft tokens against fixed ones.", "ahead_curve");
  std::string model_path;
  infer::LoadOptions options;
  options.context = 512;
  options.n_contexts = 64;
  options.draft = infer::DraftSource::Auto;  // the module, the draft model or n-grams
  size_t n_pairs = 10;
  int64_t n_tokens = 128;
  std::vector<size_t> counts{1, 4, 16, 64};
  app.add_option("model", model_path)->required();
  app.add_option("--draft-model", options.draft_model);
  app.add_option("--context", options.context)->capture_default_str();
  app.add_option("--threads", options.machines.n_threads);
  app.add_option("--pairs", n_pairs)->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--tokens", n_tokens)->check(CLI::Range(1, 400))->capture_default_str();
  app.add_option("--sequences", counts)->check(CLI::Range(1, 64))->delimiter(',')->capture_default_str();
  try {
    app.parse(argc, argv);
    auto model = infer::LoadedModel::open(model_path, options);
    fmt::print(
        "tokens/s, in parentheses those of the engine's own number relative to it (medians of {}), and the tokens of a "
        "sequence's step\n",
        n_pairs);
    fmt::print("sequences, text; fixed: 0, 1, 2, 3, 4, 6, 8; own number; fitted line\n");
    for (const size_t n : counts) {
      for (const bool repeats : {true, false}) measure(model, n, repeats, n_tokens, n_pairs);
    }
    return 0;
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return 0;
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "ahead_curve: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "ahead_curve: {}\n", error.what());
    return 1;
  }
}
