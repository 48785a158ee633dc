#include "data/tokenizers/training/word_counts.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "core/error.h"
#include "core/utf8.h"
#include "data/tokenizers/unicode.h"

namespace folio::data {
namespace {

constexpr size_t kChunk = size_t{1} << 20U;  // bytes of text that a thread counts at a time

uint64_t mixed(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a ^ 0x9E3779B97F4A7C15ULL) * (b ^ 0xBF58476D1CE4E5B9ULL);
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64U);
}

uint64_t hash_of(std::string_view bytes) {
  uint64_t hash = bytes.size();
  while (bytes.size() > 8) {
    uint64_t eight = 0;
    std::memcpy(&eight, bytes.data(), 8);
    hash = mixed(hash, eight);
    bytes.remove_prefix(8);
  }
  uint64_t rest = 0;
  std::memcpy(&rest, bytes.data(), bytes.size());
  return mixed(hash, rest);
}

}  // namespace

void WordCounts::Table::add(std::string_view word, uint64_t count) {
  const uint64_t hash = hash_of(word);
  size_t slot = hash & (slots.size() - 1);
  for (; slots[slot] != 0; slot = (slot + 1) & (slots.size() - 1)) {
    Entry& known = words[slots[slot] - 1];
    if (known.hash != hash || bytes_of(known) != word) continue;
    known.count += count;
    return;
  }
  core::require(words.size() < UINT32_MAX - 1, "the text has more than {} different words", words.size());
  words.push_back({.hash = hash, .offset = bytes.size(), .length = word.size(), .count = count});
  bytes += word;
  slots[slot] = static_cast<uint32_t>(words.size());
  if (2 * words.size() > slots.size()) grow();
}

void WordCounts::Table::grow() {
  slots.assign(2 * slots.size(), 0);
  for (size_t i = 0; i < words.size(); ++i) {
    size_t slot = words[i].hash & (slots.size() - 1);
    while (slots[slot] != 0) slot = (slot + 1) & (slots.size() - 1);
    slots[slot] = static_cast<uint32_t>(i + 1);
  }
}

void WordCounts::count(std::string_view text, Table& into) const {
  std::string normalized;
  if (nfc_) text = normalized = to_nfc(text);
  for (size_t at = 0; at < text.size();) {
    const size_t end = word_end(kind_, text, at);
    into.add(text.substr(at, end - at), 1);
    at = end;
  }
}

void WordCounts::add(std::span<const std::string_view> texts, core::ThreadPool& pool, const std::string& where) {
  std::vector<std::string_view> chunks;
  for (const std::string_view text : texts) {
    n_bytes_ += text.size();
    for_parts(text, kChunk, [&](std::string_view part) { chunks.push_back(part); });
  }
  // One table per thread, not per chunk: frequent words are then stored once per thread, and stay in the CPU's cache.
  std::vector<Table> tables(std::min(pool.size(), chunks.size()));
  std::atomic<size_t> next{0};
  pool.parallel_for(tables.size(), 1, [&](size_t first, size_t last) {
    for (size_t t = first; t < last; ++t) {
      for (size_t c = next++; c < chunks.size(); c = next++) {
        core::require(core::is_utf8(chunks[c]), "{}: not UTF-8", where);
        count(chunks[c], tables[t]);
      }
    }
  });
  for (const Table& table : tables) {
    for (const Table::Entry& word : table.words) table_.add(table.bytes_of(word), word.count);
  }
}

std::vector<WordCounts::Word> WordCounts::words() const {
  std::vector<Word> all;
  all.reserve(table_.words.size());
  for (const Table::Entry& word : table_.words) all.push_back({.bytes = table_.bytes_of(word), .count = word.count});
  return all;
}

}  // namespace folio::data
