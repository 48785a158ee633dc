#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "experiments/28_forms/automaton.h"
#include "experiments/28_forms/parts.h"
#include "infer/cpu/cpu.h"

namespace folio::experiments {
namespace {

using infer::forms::Form;
using infer::forms::FormOptions;

const std::string kSchema =
    R"({"type": "object", "properties": {"name": {"type": "string", "pattern": "^[A-Z][a-z ]{1,20}$"},
 "age": {"type": "integer", "minimum": 0, "maximum": 130}}, "required": ["name", "age"],
 "additionalProperties": false})";
constexpr const char* kKing = "The king of France, as JSON:\n";

// Returns the longest common prefix of all strings that match the form.
std::string forced_run(Form& form) {
  std::string run;
  Form::Place place = form.start();
  for (auto byte = form.forced(place); byte; byte = form.forced(place)) {
    run += static_cast<char>(*byte);
    place = form.after(place, *byte);
  }
  return run;
}

std::string joined(const data::Tokenizer& tokenizer, std::span<const int32_t> tokens) {
  std::string text;
  for (const int32_t token : tokens) text += (text.empty() ? "" : " · ") + visible(tokenizer.token_bytes(token));
  return text;
}

}  // namespace

void cuts(Report& report) {
  const std::optional<ReadersModel> published = smollm2(report, "cuts into tokens");
  if (!published) return;
  const auto& [model, tokenizer] = *published;
  const auto form = form_for(*tokenizer, FormOptions::Kind::JsonSchema, kSchema);
  const std::string run = forced_run(*form);

  // A graph of all tokenizations of the forced bytes `run`: a state per byte offset, an arrow per token. `ways` counts
  // the paths to each state.
  Automaton lattice;
  std::vector<double> ways(run.size() + 1, 0.0);
  ways[0] = 1.0;
  Form::Place place = form->start();
  for (size_t at = 0; at < run.size(); ++at) {
    lattice.states.emplace_back();
    for (const int32_t token : allowed_tokens(*form, place)) {
      const std::string& bytes = tokenizer->token_bytes(token);
      if (at + bytes.size() > run.size()) continue;  // the token extends past the run
      ways[at + bytes.size()] += ways[at];
      lattice.states.back().arrows.push_back({.to = at + bytes.size(), .bytes = {}, .run = bytes});
    }
    place = form->after(place, static_cast<uint8_t>(run[at]));
  }
  lattice.states.emplace_back();
  report.picture("cuts.svg", lattice.svg("The ways to write " + visible(run) + " in SmolLM2's tokens",
                                         "each way from left to right along the arrows is one: " +
                                             fmt::format("{:.0f} of them", ways.back())));
  report.check_above("ways to cut the forced run", ways.back(), 10.0);
  if (report.short_form()) return;  // skips generation, which the tests of build/generate cover

  infer::Cpu cpu;
  infer::Engine engine(model, cpu, {.max_positions = 256, .n_sequences = 16});
  const Tokens prompt = tokenizer->encode(kKing);
  Report::Rows rows;
  double mass = 0.0;
  for (const int32_t token : allowed_tokens(*form, form->start())) {
    const Step step = walk(engine, *tokenizer, *form, prompt, std::vector<int32_t>{token}).front();
    rows.push_back({visible(tokenizer->token_bytes(token)), step.p, step.p / step.mass});
    mass = step.mass;
  }
  report.table(fmt::format("tokens that may begin {}: {:.2g} of the probability", visible(run), mass),
               {"token", "p", "p / m"}, rows);
  report.value("probability of the tokens that may begin", mass);

  constexpr size_t n = 16;
  const std::vector<Tokens> prompts(n, prompt);
  const Drawing drawing{.form = form, .max_tokens = 40, .seed = report.seed() * 1000};
  Drawing guessing = drawing;
  guessing.speculate = 8;
  engine.goodput().set_times({}, 0.0);  // draft tokens cost nothing, so each step gets the maximum number
  const auto plain = drawn(engine, *tokenizer, prompts, drawing);
  std::vector<infer::GenerateResult> guessed;  // with draft tokens, each request run separately
  for (; guessed.size() < n; ++guessing.seed) {
    guessed.push_back(drawn(engine, *tokenizer, std::span(prompts).first(1), guessing).front());
  }
  std::map<std::string, size_t> counted;
  int64_t differ = 0;
  size_t n_drafts = 0, n_right = 0;
  for (size_t i = 0; i < n; ++i) {
    differ += plain[i].tokens != guessed[i].tokens ? 1 : 0;
    n_drafts += guessed[i].n_drafts;
    n_right += guessed[i].n_right;
    size_t bytes = 0, end = 0;
    while (end < plain[i].tokens.size() && bytes < run.size()) {
      bytes += tokenizer->token_bytes(plain[i].tokens[end++]).size();
    }
    ++counted[joined(*tokenizer, std::span(plain[i].tokens).first(end))];
  }
  rows.clear();
  for (const auto& [cut, count] : counted) rows.push_back({cut, count});
  std::ranges::stable_sort(rows, std::ranges::greater{}, [](const auto& row) { return row[1].template get<size_t>(); });
  report.table(fmt::format("how {} outputs are cut", n), {"tokens", "outputs"}, rows);
  report.say("the tokenizer's own cut: " + joined(*tokenizer, tokenizer->encode(run)));
  report.say("one of them: " + plain[0].text);
  report.value("drafts", n_drafts);
  report.value("drafts that were right", n_right);
  report.check_equal("outputs that differ when drawn one by one with speculation", differ, 0);
  report.check_above("drafts that were right", static_cast<double>(n_right), 0.0);
}

}  // namespace folio::experiments
