#include "data/tokenizers/training/bpe_trainer.h"

#include <algorithm>
#include <array>
#include <queue>
#include <span>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "core/utf8.h"
#include "data/tokenizers/byte_level.h"

namespace folio::data {
namespace {

// The occurrences of a pair of adjacent symbols in the words.
struct PairInfo {
  int64_t count = 0;       // occurrences in all words, weighted by the counts of the words
  uint32_t n_words = 0;    // number of words found to contain the pair since the last end_round()
  uint32_t last_word = 0;  // 1 + index of the word last recorded; 0: none
  uint64_t begin = 0;      // index in word_lists_ at which end_round() stores the pair's next word
};

// A pair that may be merged next. Sorted by count; of pairs with equal counts, that with the lower IDs comes first.
struct Candidate {
  uint64_t count;  ///< the pair's count when it was last checked
  TokenPair pair;
  uint64_t begin;  ///< start of the list of the pair's words in word_lists_
  uint32_t n_words;
  bool operator<(const Candidate& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

class BpeTrainer {
 public:
  BpeTrainer(std::span<const WordCounts::Word> words, const BpeTrainerOptions& options) : options_(options) {
    core::require(options.vocab_size >= std::ssize(options.special_tokens) + 256,
                  "a vocabulary of {} tokens is too small for 256 bytes and {} special tokens; use at least {}",
                  options.vocab_size, options.special_tokens.size(), 256 + options.special_tokens.size());
    for (const std::string& token : options.special_tokens) {
      core::require(core::is_utf8(token), "--special \"{}\" is not UTF-8; use a text such as \"<|end|>\"",
                    core::printable(token));
      add_token(token, PieceType::Control);
    }
    for (const std::string& token : options.special_tokens) {  // a file would spell a token of these bytes the same
      if (const auto bytes = byte_level_to_bytes(token)) ids_.try_emplace(*bytes, ids_.at(token));
    }
    add_bytes();
    for (const WordCounts::Word& word : words) {
      starts_.push_back(symbols_.size());
      counts_.push_back(static_cast<int64_t>(word.count));
      for (const char c : word.bytes) symbols_.push_back(of_byte_[static_cast<uint8_t>(c)]);
      lengths_.push_back(static_cast<uint32_t>(word.bytes.size()));
    }
  }

  [[nodiscard]] BpeVocabulary train(const BpeProgress& progress) {
    count_pairs();
    while (std::ssize(vocabulary_.pieces) < options_.vocab_size && !queue_.empty()) {
      Candidate best = queue_.top();
      queue_.pop();
      const auto count = static_cast<uint64_t>(pairs_[best.pair].count);
      if (best.count != count) {  // other merges have lowered the pair's count
        best.count = count;
        queue_.push(best);
        continue;
      }
      if (count == 0) break;
      merge(best);
      if (progress && !progress(std::ssize(vocabulary_.pieces))) break;
    }
    finish_merges();
    return std::move(vocabulary_);
  }

 private:
  // Adds a token if no token has these bytes yet; different merges can produce the same bytes. Returns the token's ID.
  // Throws core::Error if a special token has the bytes of a normal one, which no text could then contain.
  int32_t add_token(const std::string& bytes, PieceType type) {
    const auto [found, is_new] = ids_.try_emplace(bytes, static_cast<int32_t>(vocabulary_.pieces.size()));
    if (is_new) {
      vocabulary_.pieces.push_back(bytes);
      vocabulary_.types.push_back(type);
    }
    const auto id = static_cast<size_t>(found->second);
    core::require(vocabulary_.types[id] == type,
                  "--special \"{0}\" is also a byte or a word of the texts; use a text that no word contains, such as "
                  "\"<|{0}|>\"",
                  core::printable(vocabulary_.pieces[id]));
    return found->second;
  }

  // Adds a token for each byte, ordered by the character that represents the byte in GPT-2's byte-level alphabet.
  void add_bytes() {
    std::array<std::pair<std::string, uint8_t>, 256> spelled;
    for (int byte = 0; byte < 256; ++byte) {
      const char c = static_cast<char>(byte);
      spelled[static_cast<size_t>(byte)] = {bytes_to_byte_level({&c, 1}), static_cast<uint8_t>(byte)};
    }
    std::ranges::sort(spelled);  // the order of UTF-8 strings is that of code points
    for (const auto& [text, byte] : spelled) {
      of_byte_[byte] = add_token(std::string(1, static_cast<char>(byte)), PieceType::Normal);
    }
  }

  [[nodiscard]] std::span<int32_t> word(size_t w) { return std::span(symbols_).subspan(starts_[w], lengths_[w]); }

  // Records that word `w` contains the pair, unless that was already recorded since the last end_round().
  void note(TokenPair pair, PairInfo& info, size_t w) {
    if (info.last_word == w + 1) return;
    info.last_word = static_cast<uint32_t>(w + 1);
    ++info.n_words;
    seen_.emplace_back(pair, static_cast<uint32_t>(w));
  }

  // Adds to queue_ the pairs recorded since the last call, each with a list of the words that contain it.
  void end_round() {
    for (const auto& [pair, w] : seen_) {
      PairInfo& info = pairs_[pair];
      if (info.last_word != 0) {  // this is the pair's first entry in seen_
        info.last_word = 0;
        info.begin = word_lists_.size();
        word_lists_.resize(word_lists_.size() + info.n_words);
        if (info.count > 0) {
          queue_.push(
              {.count = static_cast<uint64_t>(info.count), .pair = pair, .begin = info.begin, .n_words = info.n_words});
        }
      }
      word_lists_[info.begin++] = w;
      --info.n_words;
    }
    seen_.clear();
  }

  void count_pairs() {
    for (size_t w = 0; w < starts_.size(); ++w) {
      const std::span<const int32_t> symbols = word(w);
      for (size_t i = 0; i + 1 < symbols.size(); ++i) {
        const TokenPair pair = pair_of(symbols[i], symbols[i + 1]);
        PairInfo& info = pairs_[pair];
        info.count += counts_[w];
        note(pair, info, w);
      }
    }
    end_round();
  }

  void merge(const Candidate& best) {
    const auto left = static_cast<int32_t>(best.pair >> 32U);
    const auto right = static_cast<int32_t>(best.pair & 0xFFFFFFFFU);
    const std::string text =
        vocabulary_.pieces[static_cast<size_t>(left)] + vocabulary_.pieces[static_cast<size_t>(right)];
    const int32_t joined = add_token(text, PieceType::Normal);
    vocabulary_.merges.push_back({.left = left, .right = right, .joined = joined});
    for (uint64_t i = best.begin; i < best.begin + best.n_words; ++i) merge_in(word_lists_[i], left, right, joined);
    end_round();
  }

  // Merges the pair in word `w`. As in Hugging Face's BpeTrainer, updates the counts of neighboring pairs, but not that
  // of the merged pair.
  void merge_in(size_t w, int32_t left, int32_t right, int32_t joined) {
    const std::span<int32_t> symbols = word(w);
    const int64_t count = counts_[w];
    const auto lose = [&](int32_t a, int32_t b) { pairs_[pair_of(a, b)].count -= count; };
    const auto gain = [&](int32_t a, int32_t b) {
      PairInfo& info = pairs_[pair_of(a, b)];
      info.count += count;
      note(pair_of(a, b), info, w);
    };
    size_t n = 0;
    for (size_t i = 0; i < symbols.size(); ++n) {
      if (symbols[i] != left || i + 1 == symbols.size() || symbols[i + 1] != right) {
        symbols[n] = symbols[i++];
        continue;
      }
      i += 2;
      if (n > 0) {
        lose(symbols[n - 1], left);
        gain(symbols[n - 1], joined);
      }
      symbols[n] = joined;
      if (i < symbols.size()) {
        lose(right, symbols[i]);
        gain(joined, symbols[i]);
      }
    }
    lengths_[w] = static_cast<uint32_t>(n);
  }

  // Keeps only the last merge of each pair. A pair is merged twice if a later merge produces one of its tokens again.
  void finish_merges() {
    std::unordered_map<TokenPair, size_t> last;
    auto& merges = vocabulary_.merges;
    for (size_t i = 0; i < merges.size(); ++i) last[pair_of(merges[i].left, merges[i].right)] = i;
    size_t i = 0;
    std::erase_if(merges, [&](const auto& m) { return last.at(pair_of(m.left, m.right)) != i++; });
    vocabulary_.pre_tokenizer = options_.pre_tokenizer;
    vocabulary_.nfc = options_.nfc;
    vocabulary_.ignore_merges = options_.ignore_merges;
    if (options_.special_tokens.empty()) return;
    vocabulary_.bos = 0;
    vocabulary_.eos = 0;
  }

  const BpeTrainerOptions& options_;
  BpeVocabulary vocabulary_;
  std::unordered_map<std::string, int32_t> ids_;
  std::array<int32_t, 256> of_byte_{};
  // The words after all merges so far: symbols_[starts_[w]] is the first of the lengths_[w] symbols of word w.
  std::vector<int32_t> symbols_;
  std::vector<size_t> starts_;
  std::vector<uint32_t> lengths_;
  std::vector<int64_t> counts_;
  PairTable<PairInfo> pairs_{size_t{1} << 15U};
  std::vector<std::pair<TokenPair, uint32_t>> seen_;  ///< pairs and the words in which this round found them
  std::vector<uint32_t> word_lists_;
  std::priority_queue<Candidate> queue_;
};

}  // namespace

BpeVocabulary train_bpe(const WordCounts& counts, const BpeTrainerOptions& options, const BpeProgress& progress) {
  return BpeTrainer(counts.words(), options).train(progress);
}

}  // namespace folio::data
