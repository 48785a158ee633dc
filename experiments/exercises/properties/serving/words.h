// Converts words to tokens for the tests of BPE: a is token 0, b is 1, and so on.
#pragma once

#include <string>
#include <vector>

#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

struct Spelled {
  std::string text;
  int64_t count;
};

inline std::vector<CountedWord> counted(const std::vector<Spelled>& words) {
  std::vector<CountedWord> all;
  for (const Spelled& word : words) {
    CountedWord tokens{.tokens = {}, .count = word.count};
    for (const char c : word.text) tokens.tokens.push_back(c - 'a');
    tokens.tokens.shrink_to_fit();
    all.push_back(std::move(tokens));
  }
  all.shrink_to_fit();
  return all;
}

inline std::string shown(const std::vector<Spelled>& words) {
  std::string text;
  for (const Spelled& word : words) {
    text +=
        (text.empty() ? " " : ", ") + (word.text.empty() ? "\"\"" : word.text) + " " + std::to_string(word.count) + "×";
  }
  return text;
}

inline std::string shown(const Merge& pair) {
  return "(" + std::to_string(pair.left) + ", " + std::to_string(pair.right) + ")";
}

}  // namespace folio::exercises
