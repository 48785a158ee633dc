// tokenize: trains a BPE tokenizer, encodes and decodes text, and prints statistics of a tokenizer.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <sstream>

#include "apps/program.h"
#include "core/error.h"
#include "core/file_io.h"
#include "core/file_status.h"
#include "core/print_stderr.h"
#include "core/progress_line.h"
#include "core/seconds_since.h"
#include "core/thread_pool.h"
#include "data/document_tokens.h"
#include "data/tokenizers/tokenizer_files.h"
#include "data/tokenizers/training/bpe_trainer.h"

namespace {

using namespace folio;
namespace fs = std::filesystem;

constexpr size_t kMaxStdin = size_t{256} << 20U;

struct Options {
  std::vector<std::string> texts;
  std::string field = "text";
  std::string tokenizer;
  std::string out = "tokenizer.json";
  data::BpeTrainerOptions bpe{.vocab_size = 8192};
  std::string pre_tokenizer = "gpt-2";
  size_t threads = 0;
  std::string text;
  std::vector<int32_t> ids;
  bool force = false;
  bool parse_special = true;
};

// Shows the progress of `what` on a terminal, at most ten times a second.
class TimeLeft {
 public:
  explicit TimeLeft(std::string what) : what_(std::move(what)) {}
  void show(double done, double total) {
    const double seconds = core::seconds_since(start_);
    if (seconds < next_ || done <= 0.0) return;
    next_ = seconds + 0.1;
    line_.show("{}: {:.0f} %, {:.0f} s left", what_, 100.0 * done / total, seconds * (total - done) / done);
  }

 private:
  std::string what_;
  core::ProgressLine line_;
  double next_ = 0.0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Returns a callback that shows progress. Its argument is the number of bytes of `documents` read so far.
std::function<void(uint64_t)> reading(const data::Documents& documents) {
  const auto progress = std::make_shared<TimeLeft>("reading");
  return [progress, total = static_cast<double>(documents.n_bytes())](uint64_t n_read) {
    progress->show(static_cast<double>(n_read), total);
  };
}

data::WordCounts count_words(const Options& o, const data::Documents& documents, core::ThreadPool& pool) {
  data::WordCounts counts = data::count_words(documents, UINT64_MAX, data::WordCounts(o.bpe.pre_tokenizer, o.bpe.nfc),
                                              pool, reading(documents));
  core::require(counts.n_words() > 0, "{}: the texts are empty; give files with text", o.texts.front());
  return counts;
}

fs::path config_path(const fs::path& out) { return out.parent_path() / "tokenizer_config.json"; }

// Throws if the output cannot be written, before the tokenizer is trained. Creates its folder.
void check_out(const Options& o) {
  if (config_path(o.out) == fs::path(o.out)) {
    throw core::UsageError(
        fmt::format("--out {}: tokenize writes another file of this name next to it; choose another name", o.out));
  }
  for (const fs::path& path : {fs::path(o.out), config_path(o.out)}) {
    if (!core::path_exists(path)) continue;
    core::require(core::is_plain_file(path), "--out {}: {} is not a regular file; choose another name", o.out,
                  path.string());
    core::require(o.force, "{} exists; add --force to replace it", path.string());
  }
  const fs::path folder = core::absolute_path(o.out).parent_path();
  core::make_folders(folder);
  if (::access(folder.c_str(), W_OK) != 0) core::fail("cannot write {}: {}", o.out, core::reason_of(errno));
}

void write(const data::Tokenizer& tokenizer, const fs::path& out) {
  const data::HfFiles files = tokenizer.to_hf();
  core::write_file_atomically(config_path(out), files.config);
  core::write_file_atomically(out, files.tokenizer);
}

int train(Options& o) {
  const auto& kind = data::pre_tokenizer_named(o.pre_tokenizer, "--pre-tokenizer");
  o.bpe.pre_tokenizer = kind.kind;
  o.bpe.nfc = kind.nfc;
  o.bpe.ignore_merges = kind.ignore_merges;
  const data::Documents documents(o.texts, o.field);
  check_out(o);
  core::ThreadPool pool(o.threads);
  const auto start = std::chrono::steady_clock::now();
  const data::WordCounts counts = count_words(o, documents, pool);
  const double counted = core::seconds_since(start);
  TimeLeft progress("merging");
  data::BpeVocabulary vocabulary = data::train_bpe(counts, o.bpe, [&](int64_t n) {
    progress.show(static_cast<double>(n), static_cast<double>(o.bpe.vocab_size));
    return true;
  });
  const size_t n = vocabulary.pieces.size();
  const size_t n_merges = vocabulary.merges.size();
  write(data::BpeTokenizer(std::move(vocabulary), o.out), o.out);
  fmt::print("{}: {} tokens, {} merges; {} bytes of text, {} distinct words; counted in {:.1f} s, merged in {:.1f} s\n",
             o.out, n, n_merges, counts.n_bytes(), counts.n_words(), counted, core::seconds_since(start) - counted);
  if (std::cmp_less(n, o.bpe.vocab_size)) {
    core::print_stderr("note: the texts have no more pairs to merge: {} tokens instead of {}\n", n, o.bpe.vocab_size);
  }
  return 0;
}

std::unique_ptr<data::Tokenizer> tokenizer_of(const Options& o) { return data::load_tokenizer(o.tokenizer, 0); }

int encode(const Options& o) {
  const auto tokenizer = tokenizer_of(o);
  const std::string text =
      o.text.empty() ? core::read_descriptor(STDIN_FILENO, "stdin", kMaxStdin) : core::read_text_file(o.text);
  const auto ids = tokenizer->encode_prompt(text, {.parse_special = o.parse_special, .add_special = false});
  fmt::print("{}\n", fmt::join(ids, " "));
  return 0;
}

int decode(Options& o) {
  const auto tokenizer = tokenizer_of(o);
  if (o.ids.empty()) {
    // Ends with a space, so that text.eof() is false if the last id is invalid.
    std::istringstream text(core::read_descriptor(STDIN_FILENO, "stdin", kMaxStdin) + " ");
    o.ids.assign(std::istream_iterator<int32_t>(text), {});
    core::require(text.eof(), "stdin: after {} ids, expected an integer", o.ids.size());
  }
  for (const int32_t id : o.ids) {
    core::require(id >= 0 && id < tokenizer->vocab_size(), "{} is not in the vocabulary, expected ids 0 to {}", id,
                  tokenizer->vocab_size() - 1);
  }
  const std::string text = tokenizer->decode(o.ids);
  static_cast<void>(!std::fwrite(text.data(), 1, text.size(), stdout));
  return 0;
}

int stats(const Options& o) {
  const auto tokenizer = tokenizer_of(o);
  std::vector<uint64_t> used(static_cast<size_t>(tokenizer->vocab_size()));
  uint64_t n_bytes = 0;
  uint64_t n_tokens = 0;
  const data::Documents documents(o.texts, o.field);
  const auto progress = reading(documents);
  const auto count = [&](std::span<const int32_t> tokens, bool) {
    for (const int32_t id : tokens) ++used[static_cast<size_t>(id)];
    n_tokens += tokens.size();
  };
  data::encode_documents(documents, *tokenizer, count, [&](const data::Documents::Piece& piece) {
    progress(piece.n_read);
    n_bytes += piece.text.size();
  });
  core::require(n_tokens > 0, "{}: the texts are empty; give files with text", o.texts.front());
  int32_t longest = 0;
  size_t n_unused = 0;
  for (int32_t id = 0; id < tokenizer->vocab_size(); ++id) {
    if (tokenizer->token_bytes(id).size() > tokenizer->token_bytes(longest).size()) longest = id;
    if (used[static_cast<size_t>(id)] == 0) ++n_unused;
  }
  fmt::print("{:<16} {}, {} tokens\n", "tokenizer", tokenizer->kind(), tokenizer->vocab_size());
  fmt::print("{:<16} {} bytes, {} tokens\n", "texts", n_bytes, n_tokens);
  fmt::print("{:<16} {:.3f}\n", "bytes per token", static_cast<double>(n_bytes) / static_cast<double>(n_tokens));
  fmt::print("{:<16} \"{}\" ({} bytes, id {})\n", "longest token", core::printable(tokenizer->token_bytes(longest)),
             tokenizer->token_bytes(longest).size(), longest);
  fmt::print("{:<16} {} tokens\n", "unused", n_unused);
  return 0;
}

void add_texts(apps::Flags& app, Options& o) {
  app.add_option("texts", o.texts, "files or directories: UTF-8 text, .jsonl, or either as .gz")->required();
  app.add_option("--field NAME", o.field, "JSON field with the text, for .jsonl files");
}

void add_tokenizer(apps::Flags& app, Options& o) {
  app.add_option("-t,--tokenizer PATH", o.tokenizer, "tokenizer.json or its directory, GGUF, or tokenizer.bin")
      ->required();
}

}  // namespace

int main(int argc, char** argv) {
  apps::Flags app("Train a byte-level BPE tokenizer, or apply a tokenizer to text.", "tokenize");
  app.require_subcommand();
  Options o;
  apps::Flags* train_command = app.add_subcommand("train", "learn merges from texts and write tokenizer.json");
  add_texts(*train_command, o);
  train_command->add_option("--vocab-size", o.bpe.vocab_size, "number of tokens: special tokens, 256 bytes and merges")
      ->in_range(257, 1 << 24);
  train_command->add_option("-o,--out FILE", o.out, "output file; tokenizer_config.json is written next to it");
  train_command->add_option("--pre-tokenizer NAME", o.pre_tokenizer,
                            "rule that splits texts into words: gpt-2, smollm, llama-bpe, qwen2");
  train_command->add_option("--special TOKEN", o.bpe.special_tokens,
                            "special token; the first one ends a document (repeatable)");
  train_command->add_option("--threads", o.threads, "CPU threads (default: all cores)")->in_range(1, 1024);
  train_command->add_flag("--force", o.force, "replace existing files");
  apps::Flags* encode_command = app.add_subcommand("encode", "print the token ids of a text");
  add_tokenizer(*encode_command, o);
  encode_command->add_option("file", o.text, "text file (default: stdin)");
  encode_command->add_flag("--parse-special,!--no-parse-special", o.parse_special,
                           "parse special tokens such as <|im_end|>, or read them as text (default: parse)");
  apps::Flags* decode_command = app.add_subcommand("decode", "print the text of token ids");
  add_tokenizer(*decode_command, o);
  decode_command->add_option("ids", o.ids, "token ids (default: read from stdin)");
  apps::Flags* stats_command =
      app.add_subcommand("stats", "print bytes per token, the longest token and the number of unused tokens");
  add_tokenizer(*stats_command, o);
  add_texts(*stats_command, o);
  return apps::run_program(app, argc, argv, [&] {
    return train_command->parsed()    ? train(o)
           : encode_command->parsed() ? encode(o)
           : decode_command->parsed() ? decode(o)
                                      : stats(o);
  });
}
