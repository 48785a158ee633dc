#include "experiments/28_forms/people.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/random.h"

namespace folio::experiments {
namespace {

// A name is an element of kFirst followed by one of kSecond. Together they contain all letters in both cases.
constexpr std::array kFirst{"Ajay", "Ben", "Cora", "Dov", "Eli",  "Fritz", "Gus",  "Hugh", "Iqbal",
                            "Jon",  "Kim", "Leo",  "Max", "Ned",  "Olaf",  "Pip",  "Quin", "Roy",
                            "Sam",  "Tia", "Uma",  "Vic", "Will", "Xu",    "Yves", "Zoe"};
constexpr std::array kSecond{"", "na", "ly", "kin", "win"};
constexpr std::array kKinds{"cat", "dog", "owl"};

using Json = nlohmann::ordered_json;

bool is_name(const Json& value) {
  if (!value.is_string()) return false;
  const auto name = value.get<std::string>();
  const auto small = [](char c) { return 'a' <= c && c <= 'z'; };
  return name.size() >= 2 && 'A' <= name[0] && name[0] <= 'Z' && std::all_of(name.begin() + 1, name.end(), small);
}

bool has_keys(const Json& value, const std::vector<std::string>& keys) {
  std::vector<std::string> found;
  for (const auto& [key, member] : value.items()) found.push_back(key);
  return value.is_object() && found == keys;
}

bool is_person(const std::string& text) {
  const Json person = Json::parse(text, nullptr, false);
  // Rejects spaces, repeated keys and non-canonical numbers, which dump() does not reproduce.
  if (person.is_discarded() || person.dump() != text || !has_keys(person, {"name", "age", "pets"})) return false;
  const Json& age = person["age"];
  if (!is_name(person["name"]) || !age.is_number_unsigned() || age > 99 || !person["pets"].is_array()) return false;
  return std::ranges::all_of(person["pets"], [](const Json& pet) {
    return has_keys(pet, {"kind", "name"}) && is_name(pet["name"]) &&
           std::ranges::any_of(kKinds, [&](const char* kind) { return pet["kind"] == kind; });
  });
}

}  // namespace

const char* const kPersonSchema = R"({"type": "object",
 "properties": {
  "name": {"type": "string", "pattern": "^[A-Z][a-z]+$"},
  "age": {"type": "integer", "minimum": 0, "maximum": 99},
  "pets": {"type": "array", "items": {"type": "object",
   "properties": {
    "kind": {"enum": ["cat", "dog", "owl"]},
    "name": {"type": "string", "pattern": "^[A-Z][a-z]+$"}},
   "required": ["kind", "name"], "additionalProperties": false}}},
 "required": ["name", "age", "pets"], "additionalProperties": false})";

std::string people(uint64_t seed, size_t n_lines) {
  uint64_t n_drawn = 0;
  const auto below = [&](uint64_t n) { return core::random_below(seed, n_drawn++, n); };
  const auto name = [&] {
    const char* first = kFirst[below(kFirst.size())];
    return std::string(first) + kSecond[below(kSecond.size())];
  };
  std::string text;
  for (size_t i = 0; i < n_lines; ++i) {
    text += fmt::format(R"({{"name":"{}",)", name());
    text += fmt::format(R"("age":{},"pets":[)", below(100));
    constexpr std::array<size_t, 8> kNumbers{0, 0, 1, 1, 1, 2, 2, 3};
    const size_t n_pets = kNumbers[below(kNumbers.size())];
    for (size_t pet = 0; pet < n_pets; ++pet) {
      const char* kind = kKinds[below(kKinds.size())];
      text += fmt::format(R"({}{{"kind":"{}","name":"{}"}})", pet == 0 ? "" : ",", kind, name());
    }
    text += "]}\n";
  }
  return text;
}

Verdict judged(infer::forms::Form& form, const std::string& text) {
  using infer::forms::Form;
  Form::Place place = form.start();
  size_t n = 0;
  while (n < text.size()) {
    const Form::Place next = form.after(place, static_cast<uint8_t>(text[n]));
    if (next == Form::kDead) break;
    place = next;
    ++n;
  }
  if (form.may_end(place)) return {.fits = true, .n_good = n, .where = {}};
  if (n == text.size()) return {.fits = false, .n_good = n, .where = "the line ends too early"};
  // An odd number of quotation marks: the text ends inside a string, which is a key unless a colon precedes it.
  const std::string good = text.substr(0, n);
  const size_t quote = good.rfind('"');
  size_t n_quotes = 0;
  for (const char c : good) n_quotes += c == '"' ? 1 : 0;
  std::string where = "a mark";
  if (n_quotes % 2 == 1) {
    const char before = quote == 0 ? '{' : good[quote - 1];
    where = before != ':' ? "a key" : good.substr(0, quote).ends_with("\"kind\":") ? "a kind" : "a name";
  } else if (good.find("\"age\":") != std::string::npos && good.find(',', good.find("\"age\":")) == std::string::npos) {
    where = "the age";
  }
  return {.fits = false, .n_good = n, .where = where};
}

bool begins_with_person(const std::string& text) {
  for (size_t end = text.find('}'); end != std::string::npos; end = text.find('}', end + 1)) {
    if (is_person(text.substr(0, end + 1))) return true;
  }
  return false;
}

}  // namespace folio::experiments
