// Tests infer/forms/grammar.h and form.h on random grammars: they accept the same strings as a simple recognizer, and a
// mask allows a token if and only if the form accepts the token's bytes.
#include "infer/forms/grammar.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "infer/forms/form.h"
#include "infer/forms/syntax.h"
#include "tests/infer/forms/support.h"

namespace folio::infer::forms {
namespace {

constexpr std::string_view kLetters = "abc";

// The rules of a grammar as syntax trees, which Recognizer walks directly, without states and edges.
using Rules = std::vector<Syntax>;

class Recognizer {
 public:
  Recognizer(const Rules& rules, std::string_view text) : rules_(rules), text_(text) {}

  bool takes() { return ends(rules_[0], 0).contains(text_.size()); }

 private:
  // Returns the positions where a parse of `tree` that starts at `begin` may end.
  const std::set<size_t>& ends(const Syntax& tree, size_t begin) {
    const auto key = std::pair{&tree, begin};
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
    std::set<size_t> result;
    switch (tree.kind) {
      case Syntax::Kind::Characters:
        for (const auto& [low, high] : tree.ranges) {
          const bool reads = begin < text_.size() && low <= static_cast<uint8_t>(text_[begin]) &&
                             static_cast<uint8_t>(text_[begin]) <= high;
          if (reads) result.insert(begin + 1);
        }
        break;
      case Syntax::Kind::Sequence:
        result = {begin};
        for (const Syntax& part : tree.parts) result = all_ends(part, result);
        break;
      case Syntax::Kind::Choice:
        for (const Syntax& part : tree.parts) result.merge(std::set(ends(part, begin)));
        break;
      case Syntax::Kind::Repeat: {
        std::set<size_t> now{begin};
        // Enough repetitions to reach every end, since a nonempty repetition consumes at least one byte of text_.
        const auto enough = tree.least + static_cast<int64_t>(text_.size()) + 1;
        const auto most = tree.most < 0 ? enough : tree.most;
        for (int64_t i = 0; i <= most && !now.empty(); ++i) {
          if (i >= tree.least) result.insert(now.begin(), now.end());
          if (i < most) now = all_ends(tree.parts[0], now);
        }
        break;
      }
      default:
        result = ends(rules_[static_cast<size_t>(tree.rule)], begin);
    }
    return known_[key] = result;
  }

  std::set<size_t> all_ends(const Syntax& tree, const std::set<size_t>& begins) {
    std::set<size_t> result;
    for (const size_t begin : begins) result.merge(std::set(ends(tree, begin)));
    return result;
  }

  const Rules& rules_;
  std::string_view text_;
  std::map<std::pair<const Syntax*, size_t>, std::set<size_t>> known_;
};

class Drawn {
 public:
  Drawn(uint32_t seed, int64_t most_repeats) : random_(seed), most_repeats_(most_repeats) {
    n_rules_ = 1 + random_() % 4;
    for (size_t i = 0; i < n_rules_; ++i) rules_.push_back(tree(3));
  }

  [[nodiscard]] const Rules& rules() const { return rules_; }

 private:
  Syntax letters() {
    CharacterRanges ranges;
    for (const char c : kLetters) {
      if (random_() % 2 == 0) ranges.emplace_back(c, c);
    }
    if (ranges.empty()) ranges = {{'a', 'b'}};
    return {.kind = Syntax::Kind::Characters, .ranges = ranges};
  }

  Syntax call() {
    Syntax call{.kind = Syntax::Kind::Call, .rule = static_cast<Grammar::Rule>(random_() % n_rules_)};
    if (random_() % 8 == 0) return call;  // may be left-recursive, which is rejected
    Syntax all;
    all.parts = {letters(), std::move(call)};
    return all;
  }

  Syntax tree(int depth) {
    const auto parts = [&] {
      std::vector<Syntax> result;
      for (size_t n = random_() % 4; n > 0; --n) result.push_back(tree(depth - 1));
      return result;
    };
    switch (depth == 0 ? random_() % 3 : random_() % 9) {
      case 0:
      case 1:
        return letters();
      case 2:
        return call();
      case 3:
      case 4:
        return {.kind = Syntax::Kind::Sequence, .parts = parts()};
      case 5: {
        auto branches = parts();
        branches.push_back(tree(depth - 1));
        return {.kind = Syntax::Kind::Choice, .parts = std::move(branches)};
      }
      default: {
        const auto least = static_cast<int64_t>(random_() % 3 == 0 ? random_() % most_repeats_ : random_() % 2);
        const auto more = static_cast<int64_t>(random_() % most_repeats_);
        const bool has_end = random_() % 3 != 0;
        return {.kind = Syntax::Kind::Repeat,
                .parts = {tree(depth - 1)},
                .least = least,
                .most = has_end ? least + more : -1};
      }
    }
  }

  std::mt19937 random_;
  int64_t most_repeats_;
  size_t n_rules_;
  Rules rules_;
};

Grammar grammar_of(const Rules& rules, const GrammarLimits& limits) {
  Grammar grammar(limits);
  for (size_t i = 0; i < rules.size(); ++i) static_cast<void>(grammar.declare());
  for (size_t i = 0; i < rules.size(); ++i) {
    grammar.define(static_cast<Grammar::Rule>(i),
                   build(grammar, rules[i], [&](auto ranges) { return grammar.characters(ranges); }));
  }
  return grammar;
}

// Starts random walks of up to `length` bytes at `from`. Returns the visited states and the bytes that lead to them.
std::vector<std::pair<Form::Place, std::string>> walked(Form& form, size_t n_walks, size_t length, std::mt19937& random,
                                                        Form::Place from) {
  std::vector<std::pair<Form::Place, std::string>> places{{from, ""}};
  for (size_t w = 0; w < n_walks; ++w) {
    Form::Place place = from;
    std::string text;
    for (size_t i = 0; i < length; ++i) {
      std::vector<char> next;
      for (const char c : kLetters) {
        if (form.after(place, static_cast<uint8_t>(c)) != Form::kDead) next.push_back(c);
      }
      if (next.empty()) break;
      text += next[random() % next.size()];
      place = form.after(place, static_cast<uint8_t>(text.back()));
      places.emplace_back(place, text);
    }
  }
  return places;
}

// Returns every string of up to `length` letters, shortest first.
std::vector<std::string> all_texts(std::string_view letters, size_t length) {
  std::vector<std::string> texts{""};
  for (size_t i = 0; i < texts.size() && texts[i].size() < length; ++i) {
    for (const char c : letters) texts.push_back(texts[i] + c);
  }
  return texts;
}

// Searches for bytes that lead from the state to an accepted end. Returns "?" if the search takes too long, and nullopt
// if there are no such bytes.
std::optional<std::string> completion(Form& form, Form::Place from, std::mt19937& random) {
  std::vector<std::pair<Form::Place, std::string>> queue{{from, ""}};
  std::set<Form::Place> seen{from};
  for (size_t i = 0; i < queue.size(); ++i) {
    const auto [place, text] = queue[i];
    if (form.may_end(place)) return text;
    if (i == 300) break;
    for (const char c : kLetters) {
      const Form::Place next = form.after(place, static_cast<uint8_t>(c));
      if (next != Form::kDead && seen.insert(next).second) queue.emplace_back(next, text + c);
    }
    if (i + 1 == queue.size()) return {};
  }
  for (int i = 0; i < 20; ++i) {
    for (const auto& [place, text] : walked(form, 1, 200, random, from)) {
      if (form.may_end(place)) return text;
    }
  }
  return "?";
}

struct Counts {
  size_t built = 0, taken = 0, masks = 0, completed = 0;
};

void check_form(const Rules& rules, Form& form, std::string_view letters, const data::Tokenizer& tokenizer,
                std::mt19937& random, Counts& counts) {
  for (const std::string& text : all_texts(letters, 5)) {
    const bool expected = Recognizer(rules, text).takes();
    counts.taken += expected ? 1 : 0;
    ASSERT_EQ(test::takes(form, text), expected) << "\"" << text << "\"";
  }
  for (const auto& [place, text] : walked(form, 3, 25, random, form.start())) {
    ASSERT_EQ(form.may_end(place), Recognizer(rules, text).takes()) << "\"" << text << "\"";
    ++counts.masks;
    ASSERT_EQ(test::allowed_ids(form, place), test::tried_ids(form, place, tokenizer)) << "\"" << text << "\"";
    std::vector<uint8_t> next;
    for (int byte = 0; byte < 256; ++byte) {
      if (form.after(place, static_cast<uint8_t>(byte)) != Form::kDead) next.push_back(static_cast<uint8_t>(byte));
    }
    const bool is_forced = next.size() == 1 && !form.may_end(place);
    ASSERT_EQ(form.forced(place), is_forced ? std::optional(next[0]) : std::nullopt) << "\"" << text << "\"";
    const auto rest = completion(form, place, random);
    ASSERT_TRUE(rest) << "\"" << text << "\" leads nowhere";
    if (*rest == "?") continue;
    ++counts.completed;
    ASSERT_TRUE(Recognizer(rules, text + *rest).takes()) << "\"" << text << "\", then \"" << *rest << "\"";
  }
}

// Checks one random grammar per seed. Limits of repetitions are less than 2 * `most_repeats`, tokens have up to
// `longest` bytes.
void check_drawn(uint32_t first_seed, uint32_t n_seeds, int64_t most_repeats, size_t longest) {
  Counts counts;
  for (uint32_t seed = first_seed; seed < first_seed + n_seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const Drawn drawn(seed, most_repeats);
    const std::string_view letters = seed % 4 == 0 ? kLetters.substr(0, 2) : kLetters;  // no token has "c"
    const test::ListTokenizer tokenizer(test::random_texts(30, letters, longest, random));
    const auto tokens = std::make_shared<TokenTree>(tokenizer);
    try {
      Grammar grammar = grammar_of(drawn.rules(), {.max_states = 2000, .longest_token = tokens->longest()});
      grammar.finish(0, tokens->bytes());
      Form form(std::move(grammar), tokens);
      ++counts.built;
      check_form(drawn.rules(), form, letters, tokenizer, random, counts);
    } catch (const core::Error&) {  // the grammar is left-recursive, accepts nothing, or is too large
    }
    if (testing::Test::HasFatalFailure()) return;
  }
  // Over a third of the random grammars must be valid, and accept more than one string on average.
  EXPECT_GT(counts.built, n_seeds / 3);
  EXPECT_GT(counts.taken, counts.built);
  EXPECT_GT(counts.masks, 5 * counts.built);
  EXPECT_GT(counts.completed, counts.masks * 9 / 10);
}

TEST(Grammar, ItsTextsAreThoseOfAPlainRecognizer) { check_drawn(0, 400, 4, 4); }

TEST(Grammar, LongRepetitionsAreExact) { check_drawn(100'000, 400, 20, 3); }

TEST(Grammar, TokensOfOneByteShareMost) { check_drawn(200'000, 200, 12, 1); }

// The repeated rule is defined last, so only finish() can determine whether its repetition may match the empty string.
TEST(Grammar, RepeatedRuleCallsAreCountedExactly) {
  for (const bool reads_nothing : {false, true}) {
    Grammar grammar({.longest_token = 2});
    const auto text = grammar.declare();
    const auto item = grammar.declare();
    grammar.define(text, grammar.repeat([&] { return grammar.call(item); }, 20, 22));
    const Grammar::Part letter = grammar.text("a");
    grammar.define(item, reads_nothing ? grammar.optional(letter) : letter);
    grammar.finish(text);
    const test::ListTokenizer tokenizer({"a", "aa", "b"});
    Form form(std::move(grammar), std::make_shared<TokenTree>(tokenizer));
    for (size_t n = 0; n < 25; ++n) {
      EXPECT_EQ(test::takes(form, std::string(n, 'a')), n <= 22 && (reads_nothing || n >= 20)) << n;
      if (n > 22) continue;
      const auto place = form.after(form.start(), std::string(n, 'a'));
      EXPECT_EQ(test::allowed_ids(form, place), test::tried_ids(form, place, tokenizer)) << n;
    }
  }
}

// Copies that are far from both ends of a repetition share their states.
TEST(Grammar, LongRepetitionsShareWhatIsKnownOfThem) {
  Grammar grammar({.longest_token = 3});
  const auto text = grammar.declare();
  const auto item = [&] { return grammar.text("ab"); };
  grammar.define(text, grammar.repeat([&] { return grammar.repeat(item, 10, 10); }, 500, 2000));
  grammar.finish(text);
  std::set<Grammar::State> different;
  for (size_t s = 0; s < grammar.n_states(); ++s) different.insert(grammar.alike(static_cast<Grammar::State>(s)));
  EXPECT_GT(grammar.n_states(), 60'000U);
  EXPECT_LT(different.size(), 600U);
}

TEST(Grammar, RejectsUndefinedRules) {
  Grammar grammar;
  const auto rule = grammar.declare("first");
  grammar.define(rule, grammar.call(grammar.declare("second")));
  EXPECT_ERROR(grammar.finish(rule), "the rule second is not defined");
}

}  // namespace
}  // namespace folio::infer::forms
