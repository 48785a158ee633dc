// Rung 1: a bigram model that counts how often character w follows character h in the training text.
// Text is a list of character ids, from 0 to V - 1 in order of the characters' codes.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

namespace folio::growing {

using Text = std::span<const int32_t>;  // character ids

struct Counts {
  std::vector<std::vector<double>> times;  // times[h][w]: how often character w followed h, [V][V]

  Counts(Text text, int32_t V)
      : times(V, std::vector<double>(V, 0.01)) {  // 0.01 keeps the probability of unseen pairs above 0
    for (size_t i = 1; i < text.size(); ++i) times[text[i - 1]][text[i]] += 1.0;
  }

  // Returns P(w | h): the fraction of h's occurrences that are followed by w.
  [[nodiscard]] double probability(int32_t h, int32_t w) const {
    double all = 0.0;
    for (const double count : times[h]) all += count;
    return times[h][w] / all;
  }

  // Returns the mean of -ln P(next character | current character) over the text.
  [[nodiscard]] double loss(Text text) const {
    double sum = 0.0;
    for (size_t i = 1; i < text.size(); ++i) sum -= std::log(probability(text[i - 1], text[i]));
    return sum / static_cast<double>(text.size() - 1);
  }

  // Draws the character after h with `uniform`, a random number in [0, 1): each w has an interval of size P(w | h).
  [[nodiscard]] int32_t draw(int32_t h, double uniform) const {
    int32_t w = 0;
    for (const auto last = static_cast<int32_t>(times.size()) - 1; w < last; ++w) {
      uniform -= probability(h, w);
      if (uniform < 0.0) break;
    }
    return w;
  }
};

}  // namespace folio::growing
