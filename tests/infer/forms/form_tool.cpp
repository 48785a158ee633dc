// Test tool that checks strings against forms (output constraints). Each line of stdin is a JSON object with "schema",
// "grammar" or "regex", such as {"schema": "…", "texts": ["…"], "walks": 10, "length": 60, "seed": 1}. For each, prints
// JSON: whether the form accepts each text, how many bytes of it are valid, and the strings of random walks. With
// --tokens MODEL, each mask on a walk is compared with trying every token. "bench": 3 then measures the time to compute
// the masks of 3 random outputs, and "vocabulary": true lists the tokens.
#include <time.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "core/error.h"
#include "data/tokenizers/tokenizer_files.h"
#include "infer/forms/forms.h"
#include "infer/forms/regex.h"
#include "tests/infer/forms/support.h"

namespace folio::infer::forms {
namespace {

constexpr size_t kMostSteps = 20'000;

struct Vocabulary {
  std::unique_ptr<data::Tokenizer> tokenizer;  ///< null if each byte is a token
  std::shared_ptr<const TokenTree> tokens;
};

std::vector<uint8_t> possible(Form& form, Form::Place place, std::string_view of) {
  std::vector<uint8_t> bytes;
  for (const char c : of) {
    const auto byte = static_cast<uint8_t>(c);
    if (form.after(place, byte) != Form::kDead) bytes.push_back(byte);
  }
  return bytes;
}

// Returns a random accepted string, or nullopt if it doesn't end within kMostSteps bytes. After `length` bytes, prefers
// bytes that close strings, lists and objects. Calls look(state) before each byte.
std::optional<std::string> walk(Form& form, size_t length, std::mt19937& random,
                                const std::function<void(Form::Place)>& look) {
  static const std::string kAll = [] {
    std::string all;
    for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
    return all;
  }();
  Form::Place place = form.start();
  std::string text;
  while (text.size() < kMostSteps) {
    look(place);
    const bool closes = text.size() >= length;
    if (form.may_end(place) && (closes || random() % 4 == 0)) return text;
    std::vector<uint8_t> bytes;
    if (closes && random() % 8 != 0) {
      for (const char* of : {"\"", "]}", "0123456789"}) {
        if (bytes.empty()) bytes = possible(form, place, of);
      }
    } else if (random() % 2 == 0) {
      bytes = possible(form, place, "\"\\{}[],:.eE+-/0123456789utfnbrdD");
    }
    if (bytes.empty()) bytes = possible(form, place, kAll);
    if (bytes.empty()) {
      core::require(form.may_end(place), "a walk leads nowhere: {}", core::printable(text, 400));
      return text;
    }
    const uint8_t byte = bytes[random() % bytes.size()];
    text += static_cast<char>(byte);
    place = form.after(place, byte);
  }
  return {};
}

Grammar::Part part_of(Grammar& grammar, const nlohmann::json& question) {
  if (question.contains("grammar")) return gbnf_part(grammar, question["grammar"].get<std::string>());
  if (question.contains("regex")) {
    const auto match = question.value("search", false) ? RegexMatch::Search : RegexMatch::Whole;
    return build(grammar, parse_regex(question["regex"].get<std::string>(), match),
                 called(grammar, [&](auto ranges) { return grammar.characters(ranges); }));
  }
  return json_schema_part(grammar, question.at("schema").get<std::string>(),
                          question.value("free", false) ? JsonSpaces::Anywhere : JsonSpaces::None);
}

// Returns the CPU time of this process in microseconds, which other processes don't affect.
double cpu_us() {
  timespec at{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
  return 1e6 * static_cast<double>(at.tv_sec) + 1e-3 * static_cast<double>(at.tv_nsec);
}

Grammar grammar_of(const nlohmann::json& question, const Vocabulary& vocabulary) {
  Grammar grammar({.longest_token = vocabulary.tokens->longest()});
  const Grammar::Rule rule = grammar.declare();
  grammar.define(rule, part_of(grammar, question));
  grammar.finish(rule, vocabulary.tokens->bytes());
  return grammar;
}

// Returns up to 4 * `length` random tokens that the form allows. After `length` tokens, and in one of six draws before
// that, prefers tokens that end the output soon: only quotes, else only ] and }, else only digits, ":" and ",".
std::vector<int32_t> drawn(Form& form, const data::Tokenizer& tokenizer, size_t length, std::mt19937& random) {
  std::vector<int32_t> text;
  Form::Place place = form.start();
  while (text.size() < 4 * length) {
    const bool closes = text.size() >= length || random() % 6 == 0;
    if (form.may_end(place) && (closes || random() % 4 == 0)) break;
    std::vector<int32_t> allowed = test::allowed_ids(form, place);
    for (const std::string_view of : {"\"", "]}", ":,0123456789"}) {
      std::vector<int32_t> closing;
      std::ranges::copy_if(allowed, std::back_inserter(closing), [&](int32_t id) {
        return tokenizer.token_bytes(id).find_first_not_of(of) == std::string::npos;
      });
      if (!closes || closing.empty()) continue;
      allowed = closing;
      break;
    }
    if (allowed.empty()) break;
    text.push_back(allowed[random() % allowed.size()]);
    place = form.after(place, tokenizer.token_bytes(text.back()));
  }
  return text;
}

// Draws random outputs, and measures for each token the microseconds to process it and compute the next mask.
nlohmann::json bench(const nlohmann::json& question, const Vocabulary& vocabulary) {
  const data::Tokenizer& tokenizer = *vocabulary.tokenizer;
  Form form(grammar_of(question, vocabulary), vocabulary.tokens);
  Form fresh(grammar_of(question, vocabulary), vocabulary.tokens);
  std::mt19937 random(question.value("seed", 1U));
  auto texts = nlohmann::json::array();
  auto all_us = nlohmann::json::array();
  for (size_t i = 0; i < question["bench"].get<size_t>(); ++i) {
    const std::vector<int32_t> text = drawn(form, tokenizer, question.value("length", size_t{60}), random);
    Form::Place place = fresh.start();
    std::vector<double> us;
    for (size_t n = 0; n <= text.size(); ++n) {
      std::vector<uint64_t> bits(static_cast<size_t>(tokenizer.vocab_size()) / 64 + 1);
      const double begin = cpu_us();
      if (n > 0) place = fresh.after(place, tokenizer.token_bytes(text[n - 1]));
      for (const auto& [first, last] : fresh.allowed(place)) {
        for (const int32_t id : vocabulary.tokens->tokens().subspan(first, last - first)) {
          bits[static_cast<size_t>(id) / 64] |= uint64_t{1} << (static_cast<size_t>(id) % 64);
        }
      }
      us.push_back(cpu_us() - begin);
    }
    texts.push_back(text);
    all_us.push_back(us);
  }
  return {{"tokens", texts}, {"us", all_us}, {"places", fresh.n_places()}, {"bytes", fresh.n_bytes()}};
}

nlohmann::json answer(const nlohmann::json& question, const Vocabulary& vocabulary) {
  const double begin = cpu_us();
  Grammar grammar = grammar_of(question, vocabulary);
  nlohmann::json said = {{"states", grammar.n_states()}};
  Form form(std::move(grammar), vocabulary.tokens);
  said["ms"] = 1e-3 * (cpu_us() - begin);
  if (question.contains("bench")) said.update(bench(question, vocabulary));
  for (const auto& text : question.value("texts", nlohmann::json::array())) {
    Form::Place place = form.start();
    size_t n = 0;
    for (const char c : text.get_ref<const std::string&>()) {
      const Form::Place next = form.after(place, static_cast<uint8_t>(c));
      if (next == Form::kDead) break;
      place = next;
      ++n;
    }
    const bool whole = n == text.get_ref<const std::string&>().size() && form.may_end(place);
    said["texts"].push_back({whole, n});
  }
  std::mt19937 random(question.value("seed", 1U));
  size_t n_masks = 0;
  const auto look = [&](Form::Place place) {
    if (!vocabulary.tokenizer || random() % 8 != 0) return;
    ++n_masks;
    core::require(test::allowed_ids(form, place) == test::tried_ids(form, place, *vocabulary.tokenizer),
                  "a mask is wrong");
  };
  size_t unfinished = 0;
  said["walks"] = nlohmann::json::array();
  for (size_t i = 0; i < question.value("walks", size_t{0}); ++i) {
    if (auto text = walk(form, question.value("length", size_t{60}), random, look)) {
      said["walks"].push_back(*text);
    } else {
      ++unfinished;
    }
  }
  said["unfinished"] = unfinished;
  said["masks"] = n_masks;
  return said;
}

nlohmann::json described(const data::Tokenizer& tokenizer) {
  nlohmann::json said = {{"end", tokenizer.end_of_text()}, {"tokens", nlohmann::json::array()}};
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    std::string hex;
    for (const char c : tokenizer.token_bytes(id)) hex += fmt::format("{:02x}", static_cast<uint8_t>(c));
    said["tokens"].push_back(hex);
  }
  return said;
}

int run(int argc, char** argv) {
  Vocabulary vocabulary{.tokenizer = nullptr, .tokens = test::all_bytes()};
  if (argc == 3 && std::string_view(argv[1]) == "--tokens") {
    vocabulary.tokenizer = data::load_tokenizer(argv[2], 0);
    vocabulary.tokens = std::make_shared<TokenTree>(*vocabulary.tokenizer);
  }
  for (std::string line; std::getline(std::cin, line);) {
    nlohmann::json said;
    try {
      const auto question = nlohmann::json::parse(line);
      said = question.contains("vocabulary") ? described(*vocabulary.tokenizer) : answer(question, vocabulary);
    } catch (const core::Error& error) {
      said = {{"error", error.what()}};
    }
    std::cout << said.dump() << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace folio::infer::forms

int main(int argc, char** argv) { return folio::infer::forms::run(argc, argv); }
