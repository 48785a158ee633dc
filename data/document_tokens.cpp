#include "data/document_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.h"
#include "core/file_io.h"
#include "core/file_status.h"
#include "core/progress_line.h"
#include "core/utf8.h"
#include "data/tokenizers/pre_tokenizer.h"

namespace folio::data {
namespace {

namespace fs = std::filesystem;

constexpr size_t kTogether = size_t{16} << 20U;  // bytes of text to collect before all threads encode them in parallel
constexpr size_t kChunk = size_t{1} << 19U;      // bytes that a thread encodes at a time

// Collects the distinct characters of documents, and rejects invalid UTF-8.
class Characters {
 public:
  void add(const Documents::Piece& piece) {
    const std::string_view text = piece.text;
    for (size_t at = 0; at < text.size();) {
      if (static_cast<unsigned char>(text[at]) < 0x80) {
        seen_[static_cast<unsigned char>(text[at++])] = true;
        continue;
      }
      const core::Utf8Char c = core::decode_utf8(text, at);
      if (!c.valid) refuse(piece, at);
      seen_[c.code_point] = true;
      at += c.length;
    }
    place_.move_past(text);
    if (piece.ends_document) place_ = {};
  }

  [[nodiscard]] std::vector<std::string> all() const {
    std::vector<std::string> characters;
    for (uint32_t c = 0; c < seen_.size(); ++c) {
      if (seen_[c]) core::append_utf8(characters.emplace_back(), c);
    }
    return characters;
  }

 private:
  [[noreturn]] void refuse(const Documents::Piece& piece, size_t at) {
    place_.move_past(piece.text.substr(0, at));
    core::fail("{}: invalid UTF-8 at line {}, column {} of a document (value 0x{:02X}); convert the text to UTF-8",
               piece.where, place_.line, place_.column, static_cast<unsigned char>(piece.text[at]));
  }

  std::vector<bool> seen_ = std::vector<bool>(0x110000);
  core::TextPlace place_;  ///< line and column where the next piece begins, for errors
};

// Encodes pieces of documents on all threads and passes their tokens to `sink` in order.
class Encoder {
 public:
  Encoder(const Tokenizer& tokenizer, core::ThreadPool& pool, const TokenSink& sink)
      : tokenizer_(tokenizer), pool_(pool), sink_(sink), whole_(tokenizer.kind() == "SentencePiece") {}

  void add(const Documents::Piece& piece) {
    if (!begun_ || parts_.empty()) parts_.push_back({.begins = !begun_});
    begun_ = !piece.ends_document;
    if (whole_) {  // SentencePiece's tokens depend on the whole text, so documents are not split
      parts_.back().text += piece.text;
    } else {
      for_parts(piece.text, kChunk, [&](std::string_view part) {
        if (!parts_.back().text.empty()) parts_.emplace_back();
        parts_.back().text = part;
      });
    }
    n_bytes_ += piece.text.size();
    if (n_bytes_ >= kTogether && (!whole_ || !begun_)) flush();
  }

  void flush() {
    std::vector<std::vector<int32_t>> tokens(parts_.size());
    pool_.parallel_for(parts_.size(), 1, [&](size_t first, size_t last) {
      for (size_t i = first; i < last; ++i) tokens[i] = tokenizer_.encode(parts_[i].text);
    });
    for (size_t i = 0; i < parts_.size(); ++i) sink_(tokens[i], parts_[i].begins);
    parts_.clear();
    n_bytes_ = 0;
  }

 private:
  struct Part {
    std::string text{};
    bool begins = false;  ///< the part begins a document
  };

  const Tokenizer& tokenizer_;
  core::ThreadPool& pool_;
  const TokenSink& sink_;
  bool whole_;
  std::vector<Part> parts_;
  size_t n_bytes_ = 0;
  bool begun_ = false;  ///< the next piece continues a document
};

// Passes the tokens of all documents to `sink`, with an end-of-text token between documents.
void encode(const Documents& documents, const Tokenizer& tokenizer,
            const std::function<void(std::span<const int32_t>)>& sink, bool progress) {
  const std::array end{tokenizer.end_of_text()};
  bool any = false;
  const auto join = [&](std::span<const int32_t> tokens, bool begins) {
    if (begins && std::exchange(any, true)) sink(end);
    sink(tokens);
  };
  core::ProgressLine line;
  encode_documents(documents, tokenizer, join, [&](const Documents::Piece& piece) {
    if (progress) line.show("tokens: {} of {} MB of text", piece.n_read >> 20U, documents.n_bytes() >> 20U);
  });
}

std::string digest_of(const DocumentsSummary& summary, const Tokenizer& tokenizer) {
  Digest digest;
  digest.add(summary.digest);
  digest.add(tokenizer.to_hf().tokenizer);  // unlike a GGUF, has all settings that change tokens
  digest.add(fmt::format("end: {}", tokenizer.end_of_text()));
  return digest.hex();
}

template <typename Number>
void write_tokens(const fs::path& path, const Documents& documents, const Tokenizer& tokenizer, bool progress) {
  core::write_file_atomically(path, [&](core::OutputFile& file) {
    std::vector<Number> numbers;
    encode(
        documents, tokenizer,
        [&](std::span<const int32_t> tokens) {
          numbers.assign(tokens.begin(), tokens.end());
          file.write(std::as_bytes(std::span(numbers)));
        },
        progress);
  });
}

}  // namespace

void Digest::add(std::string_view bytes) {
  for (const char c : bytes) hash_ = (hash_ ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
}

void encode_documents(const Documents& documents, const Tokenizer& tokenizer, const TokenSink& sink,
                      const std::function<void(const Documents::Piece&)>& on_piece) {
  core::ThreadPool pool;
  Encoder encoder(tokenizer, pool, sink);
  documents.read([&](const Documents::Piece& piece) {
    encoder.add(piece);
    on_piece(piece);
  });
  encoder.flush();
}

std::string Digest::hex() const { return fmt::format("{:016x}", hash_); }

DocumentsSummary summarize(const Documents& documents) {
  DocumentsSummary summary;
  Digest digest;
  Characters characters;
  bool between = false;  // a document has ended, and the next has not begun
  documents.read([&](const Documents::Piece& piece) {
    if (std::exchange(between, false)) digest.add(kDocumentEnd);
    digest.add(piece.text);
    characters.add(piece);
    summary.n_bytes += piece.text.size();
    if (!piece.ends_document) return;
    ++summary.n_documents;
    between = true;
  });
  core::require(summary.n_bytes > 0, "{} is empty", documents.files().front().string());
  summary.digest = digest.hex();
  summary.characters = characters.all();
  return summary;
}

WordCounts count_words(const Documents& documents, uint64_t n_bytes, WordCounts counts, core::ThreadPool& pool,
                       const std::function<void(uint64_t)>& progress) {
  documents.read_together(
      [&](std::span<const std::string> texts, const std::string& where) {
        std::vector<std::string_view> counted;
        uint64_t left = n_bytes - std::min(n_bytes, counts.n_bytes());
        for (const std::string_view text : texts) {
          if (left == 0) break;
          counted.push_back(left < text.size() ? text.substr(0, word_border(text, left)) : text);
          left -= std::min<uint64_t>(left, counted.back().size());
        }
        counts.add(counted, pool, where);
      },
      progress);
  return counts;
}

DocumentTokens::DocumentTokens(const Documents& documents, const DocumentsSummary& summary, const Tokenizer& tokenizer,
                               const Options& options) {
  if (options.folder.empty() || summary.n_bytes <= options.in_memory) {
    encode(
        documents, tokenizer,
        [&](std::span<const int32_t> tokens) { tokens_.insert(tokens_.end(), tokens.begin(), tokens.end()); }, false);
    view_ = tokens_;
    return;
  }
  const bool narrow = tokenizer.vocab_size() <= 1 << 16;
  const fs::path path =
      options.folder / fmt::format("tokens-{}.{}", digest_of(summary, tokenizer), narrow ? "u16" : "u32");
  if (!core::path_exists(path)) {
    core::make_folders(options.folder);
    if (narrow) {
      write_tokens<uint16_t>(path, documents, tokenizer, options.progress);
    } else {
      write_tokens<uint32_t>(path, documents, tokenizer, options.progress);
    }
  }
  file_.emplace(path);
  const std::span<const std::byte> bytes = file_->bytes();
  if (narrow) {
    view_ = TokenView(std::span(reinterpret_cast<const uint16_t*>(bytes.data()), bytes.size() / 2));
  } else {
    view_ = TokenView(std::span(reinterpret_cast<const int32_t*>(bytes.data()), bytes.size() / 4));
  }
}

}  // namespace folio::data
