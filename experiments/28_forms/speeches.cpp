#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "core/error.h"
#include "data/corpus.h"
#include "experiments/28_forms/automaton.h"
#include "experiments/28_forms/mass_picture.h"
#include "experiments/28_forms/parts.h"

namespace folio::experiments {
namespace {

using infer::forms::FormOptions;

constexpr size_t kLongest = 40;  // maximum number of characters in a line, without the punctuation mark at its end
const std::string kSpeech = R"([A-Z]+:\n([A-Za-z' ]{1,40}[!,.:;?]\n)+\n)";
constexpr size_t kBefore = 48;
constexpr int64_t kSpeechTokens = 192;
constexpr size_t kColumns = 110;  // number of tokens in the picture
// Groups of characters that the form treats alike, with an example of each.
const std::vector<std::pair<std::string, char>> kGroups{{"A–Z", 'A'},       {"a–z ␣ '", 'a'}, {":", ':'},
                                                        {"! , . ; ?", '.'}, {"↵", '\n'},      {"& $ - 3", '-'}};

constexpr std::string_view kMarks = "!,.:;?";

// Returns true if `text` is a complete speech: a hand-written check of kSpeech, independent of the engine's forms.
bool fits(const std::string& text) {
  const auto capital = [](char c) { return 'A' <= c && c <= 'Z'; };
  const auto letter = [&](char c) { return capital(c) || ('a' <= c && c <= 'z') || c == '\'' || c == ' '; };
  const size_t colon = text.find(":\n");
  if (colon == std::string::npos || colon == 0) return false;
  if (!std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(colon), capital)) return false;
  size_t n_lines = 0;
  for (size_t at = colon + 2; at < text.size(); ++n_lines) {
    const std::string line = text.substr(at, text.find('\n', at) - at);
    at += line.size() + 1;
    if (line.empty()) return n_lines > 0 && at == text.size();
    if (line.size() < 2 || line.size() > kLongest + 1 || kMarks.find(line.back()) == std::string::npos) return false;
    if (!std::all_of(line.begin(), line.end() - 1, letter)) return false;
  }
  return false;
}

// Describes where in a speech the prefix `text` ends, for the table of steps.
std::string place_name(const std::string& text) {
  const size_t colon = text.find(':');
  if (text.empty()) return "the name's first letter";
  if (colon == std::string::npos) return "in the name";
  if (colon + 1 == text.size()) return "the name's line end";
  const size_t line = text.rfind('\n') + 1;
  const size_t n = text.size() - line;
  if (n == 0) return text[line - 2] == ':' && line == colon + 2 ? "the first line's first letter" : "after a line";
  if (kMarks.find(text.back()) != std::string::npos) return "after a mark";
  return n == kLongest ? "after 40 letters" : "in a line";
}

}  // namespace

Speeches::Speeches(Report& report, const ReadersModel& reader, infer::Engine& engine)
    : report_(report),
      reader_(reader),
      engine_(engine),
      form_(form_for(*reader.tokenizer, FormOptions::Kind::Regex, kSpeech)) {
  const std::string corpus = data::load_corpus("tinyshakespeare").text;
  book_ = corpus.substr(corpus.size() * 9 / 10);
  for (size_t at = book_.find("\n\n"); at != std::string::npos; at = book_.find("\n\n", at + 2)) {
    if (at + 2 >= kBefore) speech_begins_.push_back(at + 2);
  }
}

Tokens Speeches::prompt(size_t i) const {
  const size_t at = speech_begins_[i * 7 % speech_begins_.size()];
  return reader_.tokenizer->encode(std::string_view(book_).substr(at - kBefore, kBefore));
}

std::vector<infer::GenerateResult> Speeches::written(size_t n, const Drawing& drawing) const {
  std::vector<Tokens> prompts;
  for (size_t i = 0; i < n; ++i) prompts.push_back(prompt(i));
  return drawn(engine_, *reader_.tokenizer, prompts, drawing);
}

void Speeches::automaton() {
  const Automaton all = Automaton::of(*form_);
  const Automaton few = all.shortened();
  report_.say(fmt::format("{}: {} states, {} in the picture", visible(kSpeech), all.states.size(), few.states.size()));
  // The expected states: start, name, after the colon, start of the first line, after 1 to 40 characters, punctuation
  // mark, newline, end.
  report_.check_equal("states of the speech's automaton", all.states.size(), 4 + 40 + 3);
  report_.picture("speech.svg",
                  few.svg("A speaker's name, then lines of at most forty letters that end in a mark",
                          visible(kSpeech) + "   ×39: 39 equal states in a row; next: to the next of them"));
}

void Speeches::texts() {
  const size_t n = report_.short_form() ? 12 : 96;
  const size_t n_book = speech_begins_.size() - 1;
  int64_t n_fit = 0;
  for (size_t i = 0; i < n_book; ++i) {
    n_fit += fits(book_.substr(speech_begins_[i], speech_begins_[i + 1] - speech_begins_[i])) ? 1 : 0;
  }
  std::vector<double> free_share, whole;
  std::vector<int64_t> beginnings, stopped;
  int64_t n_free = 0, n_whole = 0, n_ended = 0, n_free_ended = 0;
  const auto ends = [](const auto& result) { return result.finish_reason == infer::FinishReason::Stop; };
  const auto begins = [&](const auto& result) {
    return form_->after(form_->start(), result.text) != infer::forms::Form::kDead;
  };
  for (const uint64_t seed : report_.seeds()) {
    const auto free = written(n, {.max_tokens = kSpeechTokens, .stops = {"\n\n"}, .seed = seed * 1000});
    const auto held = written(n, {.form = form_, .max_tokens = kSpeechTokens, .seed = seed * 1000});
    const auto fit = std::ranges::count_if(free, [](const auto& result) { return fits(result.text + "\n\n"); });
    const auto fit_held = std::ranges::count_if(held, [](const auto& result) { return fits(result.text); });
    const auto ended = std::ranges::count_if(held, ends);
    n_free += fit;
    n_free_ended += std::ranges::count_if(free, ends);
    n_whole += fit_held;
    n_ended += ended;
    free_share.push_back(ratio(fit, n));
    beginnings.push_back(std::ssize(held) - std::ranges::count_if(held, begins));
    whole.push_back(static_cast<double>(fit_held));
    stopped.push_back(ended - fit_held);
    if (seed == report_.seed()) {
      report_.say("free:\n" + free[0].text);
      report_.say("with the form:\n" + held[0].text + held[1].text);
    }
  }
  const size_t all = n * report_.seeds().size();
  report_.table("speeches", {"", "speeches", "that end", "that fit", "share"},
                {{"the book", n_book, n_book, n_fit, ratio(n_fit, n_book)},
                 {"free", all, n_free_ended, n_free, ratio(n_free, all)},
                 {"with the form", all, n_ended, n_whole, ratio(n_whole, all)}});
  report_.check_below("free speeches that fit, share", free_share, 0.2);
  report_.check_equal("speeches with the form that are not the beginning of one that fits", beginnings, 0);
  report_.check_equal("speeches with the form that end and don't fit", stopped, 0);
  report_.check_above("speeches with the form that end and fit", whole, 0.0);
}

void Speeches::steps() {
  const size_t n = report_.short_form() ? 8 : 48;
  const auto held = written(n, {.form = form_, .max_tokens = kSpeechTokens, .seed = report_.seed() * 1000});
  struct Sum {
    double mass = 0.0;
    double allowed = 0.0;
    double log_mass = 0.0;
    size_t n = 0;
  };
  std::map<std::string, Sum> by_place;
  std::vector<std::string> order;
  std::vector<MassPicture::Column> columns;  // tokens of all texts, one after the other
  double log_mass_sum = 0.0, log_p_sum = 0.0;
  size_t n_tokens = 0;
  bool is_shown = false;
  for (size_t i = 0; i < n; ++i) {
    const std::vector<Step> steps = walk(engine_, *reader_.tokenizer, *form_, prompt(i), held[i].tokens);
    std::string text;
    for (const Step& step : steps) {
      const std::string name = place_name(text);
      if (!by_place.contains(name)) order.push_back(name);
      Sum& sum = by_place[name];
      sum.mass += step.mass;
      sum.allowed += static_cast<double>(step.n_allowed);
      sum.log_mass += std::log(step.mass);
      ++sum.n;
      text += reader_.tokenizer->token_bytes(step.token);
    }
    log_mass_sum += log_product(steps, &Step::mass);
    log_p_sum += log_product(steps, &Step::p);
    n_tokens += steps.size();
    auto place = form_->start();
    for (const Step& step : steps) {
      if (columns.size() == kColumns) break;
      const std::string& letter = reader_.tokenizer->token_bytes(step.token);
      columns.push_back({.name = visible(letter), .mass = step.mass, .allowed = {}});
      for (const auto& [name, one] : kGroups) {
        columns.back().allowed.push_back(form_->after(place, static_cast<uint8_t>(one)) != infer::forms::Form::kDead);
      }
      place = form_->after(place, letter);
    }
    // Prints the first speech with a mass (probability of allowed tokens) below 0.1 in its first 8 steps. If there is
    // none, prints the last speech.
    const auto first = std::span(steps).first(std::min<size_t>(steps.size(), 8));
    const bool is_cut = std::ranges::any_of(first, [](const Step& step) { return step.mass < 0.1; });
    if (is_shown || (!is_cut && i + 1 < n)) continue;
    is_shown = true;
    Report::Rows rows;
    std::string so_far;
    for (size_t t = 0; t < steps.size() && t < 14; ++t) {
      const std::string token = reader_.tokenizer->token_bytes(steps[t].token);
      rows.push_back({place_name(so_far), steps[t].n_allowed, steps[t].mass, visible(token), steps[t].p,
                      steps[t].p / steps[t].mass});
      so_far += token;
    }
    report_.say("one that is cut soon:\n" + held[i].text);
    report_.value("the cut in the first steps", std::ranges::min(first, {}, &Step::mass).mass);
    report_.table("the first steps", {"state of the form", "allowed tokens", "m", "drawn", "p", "p / m"}, rows);
  }
  MassPicture picture{.title = "Allowed letters, and their mass",
                      .subtitle =
                          "blue: the model's probability of all allowed letters; orange: "
                          "that of masked letters; green: the allowed letters",
                      .columns = columns};
  for (const auto& [name, one] : kGroups) picture.groups.push_back(name);
  report_.picture("mass.svg", picture);
  Report::Rows rows;
  for (const std::string& name : order) {
    const Sum& s = by_place.at(name);
    const auto count = static_cast<double>(s.n);
    rows.push_back({name, s.n, s.allowed / count, s.mass / count, std::exp(s.log_mass / count)});
  }
  report_.table("where the mass is cut", {"state of the form", "steps", "allowed tokens", "mean m", "e^(mean ln m)"},
                rows);
  report_.value("ln p of a token", log_p_sum / static_cast<double>(n_tokens));
  report_.value("of which ln m", log_mass_sum / static_cast<double>(n_tokens));
  const Sum& within = by_place.at("in a line");
  report_.check_above("mean m within a line", within.mass / static_cast<double>(within.n), 0.8);
  if (const auto wall = by_place.find("after 40 letters"); wall != by_place.end()) {
    report_.check_below("mean m after 40 letters", wall->second.mass / static_cast<double>(wall->second.n), 0.5);
  }
}

void refusal(Report& report, const ReadersModel& reader) {
  bool has_brace = false;  // a byte-level vocabulary has one
  for (int32_t id = 0; id < reader.tokenizer->vocab_size(); ++id) {
    has_brace = has_brace || reader.tokenizer->token_bytes(id).find('{') != std::string::npos;
  }
  for (const auto& [what, kind, text] :
       {std::tuple{"an object of JSON", FormOptions::Kind::JsonObject, ""},
        std::tuple{R"(\{[a-z]+\}, a regular expression)", FormOptions::Kind::Regex, R"(\{[a-z]+\})"},
        std::tuple{R"([a-z]+|\{[a-z]+\}, which matches strings without a brace)", FormOptions::Kind::Regex,
                   R"([a-z]+|\{[a-z]+\})"}}) {
    std::string said = "accepted";
    try {
      static_cast<void>(form_for(*reader.tokenizer, kind, text));
    } catch (const core::Error& error) {
      said = error.what();
    }
    report.say(fmt::format("{}: {}", what, said));
    const bool refused = said.find("no token contains the byte 0x7b") != std::string::npos;
    report.check_equal(std::string("rejected for the missing brace: ") + what, refused ? 1 : 0,
                       has_brace || std::string(text).starts_with("[a-z]+|") ? 0 : 1);
  }
}

}  // namespace folio::experiments
